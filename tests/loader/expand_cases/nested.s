.macro DEF name, val
.macro \name x, y=\val
> \name \x \y \@
.endm
.endm
DEF foo, 7
foo 1
FOO 1, 2
DEF bar, "a b"
bar 3
.macro OUTER a
.macro INNER b
> outer \a inner \b
.endm
INNER x
.purgem INNER
INNER2 \a
.endm
.macro INNER2 q
> inner2 \q \@
.endm
OUTER 1
OUTER 2
.macro N a
> N\a \@
.endm
.macro O
N 1\@
N 2\@
.irp x, p, q
> \x \@
N \x
> \x \@
.endr
.rept 2
> rept \@
N \@
.endr
> end \@
.endm
O
O
.irp x, p, q
N \@
> \x \@
.endr
.rept 2
N 5
.endr
.macro MAKE names:vararg
.irp n, \names
.macro make_\n v
> made \n \v
.endm
.endr
.endm
MAKE one, two
make_one 1
make_two 2
.macro LOOP2 p
.irp i, 0, 1
.irp j, 0, 1
> \p \i \j
.endr
.endr
.endm
LOOP2 z
.macro CAT a b
> \a\()\b
.endm
.irp x, 1, 2
CAT a\x b\x
.endr
