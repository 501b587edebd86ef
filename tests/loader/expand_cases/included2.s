> second
.irp x, a, b
> \x
.endr
