> included
.macro FROM_FILE a
> from file \a
.endm
