.macro EX a
.irp x,1,2,3
.if \x==2
.exitm
.endif
> ex \x
.endr
.if \a
.exitm
.endif
> after \a
.endm
EX 0
EX 1
.rept 3
> once
.exitm
.endr
.macro Q a
.if \a
.if 1
.exitm
> no
.endif
.else
> else
.endif
> end \a
.endm
Q 1
Q 0
.macro R
Q 1
> after Q
.exitm
> no
.endm
R
> last
.macro T
.else
> from T
.endm
.if 1
> first
T
.endif
.macro U
.endif
.endm
.if 1
> open
U
> closed
