.irp x
> [\x]
.endr
.irp x,
> [\x]
.endr
.irp x a b,c , d e
> [\x]
.endr
.irp x, "a b" , [c d], (e f), ,g
> [\x]
.endr
.irp x, a[b, c]d, {e, f}, (g,h)
> <\x>
.endr
.irp x, %a %b, $c, -1, 1-1, 1 - 1, a+b, a + b
> <\x>
.endr
.irpc x, abc d
> [\x]
.endr
.irpc x, "abc d"
> [\x]
.endr
.irpc x
> [\x]
.endr
.irpc x 123
> \x
.irpc y,45
> \x\y
.endr
.endr
.irp x,"",""
> [\x]
.endr
.rept 3
> r
.rept 2
> s
.endr
.endr
.rept 0
> never
.endr
.rept
> never
.endr
.set n, 0
.rept 4
.set n, n+1
.if n == 3
> third
.endif
.endr
.rept (2+1)*n-10
> twice
.endr
.REPT 1
> upper
.ENDR
.irp x,1,2
.irp y,a,b
.irpc z,pq
> \x\y\z
.endr
.endr
.endr
.rep 2
> rep
.endr
.irp x,1,2,3,
> trail \x
.endr
