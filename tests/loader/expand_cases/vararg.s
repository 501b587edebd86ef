.macro V a, rest:vararg
> \a | \rest |
.endm
V 1
V 1, 2
V 1, 2, 3
V 1 2 3
V 1,   2  ,  3 + 4
V 1 2 3 4 5, 6 7
V a=1
.macro W rest:vararg
 .irp e, \rest
> <\e>
 .endr
.endm
W
W a
W a, b c, (d e)
W [x + y], {z}
.macro X a, rest:vararg=none
> \a \rest
.endm
X 1
X 1, 2, 3
.macro COUNT a, rest:vararg
 .set n, n + 1
 .ifnb \rest
 COUNT \rest
 .endif
.endm
.macro SHOWN n
> n = \n
.endm
.set n, 0
COUNT a, b, c, d
.if n == 4
> four
.else
> not four
.endif
