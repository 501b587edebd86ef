.macro S a, b, op
> &a x&a &a&b &b& & a && \a&b \a&\b
> \(a) \b\()x \op\().f32 \(two words) ()
> \a\b \a\a . \b \a-\b,\a
> \@ %r\@_\@ x\@y
> a b op
> \a:\b \a=\b @\a {\a} [\a+\b] %\a
.endm
S 1, 2, add
S b=q, op=mul
S "x y", z
.macro T a
.if \a
> \a
 T \a-1
.endif
.endm
T 3
.macro P n
.if \n
 P "(\n-1)"
> (\n)
.endif
.endm
P 4
.macro SUM from=0, to=5
> \from
.if \to-\from
 SUM "(\from+1)",\to
.endif
.endm
SUM 0,5
