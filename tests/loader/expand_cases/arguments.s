.macro S a, b=DB, c
> [\a] [\b] [\c] \@
.endm
S x, y, z
s x y z
  S x , y ,z
S x + y, z
S x -y z
S %a %b %c
S [%rd + 16], {q}, z
S (a, b), c
S (a b), c
S [a  b] c
S a,,c
S ,b
S b=2, a=1
S 1, c=3
S b=2 a=1
S a= 1
S a =1
S a="x y", c="p, q"
S "x y" "p, q"
S "x y"z
S 'a', 'b'
S 'a 'b
S it's
S '\n', '\\', '\''
S a*b c/d
S !a, ~b
S @p, @!p
S a|b, c | d
S a<b, a > b
S {%a , %b}
S $a $b
S a : b
S a:b c::d
S(a)
S[a] b
S,a
S+a
S a, b ,
S
S a(b=c)
S (b=c)
S x<y, z>w
S a.b, .c
S a % b
S a%b
S [a b
S (a [b) c] d
S a] b
S ((a b) c) d, [[e f] g]
S a	b		c
S ""
S "", "q"
