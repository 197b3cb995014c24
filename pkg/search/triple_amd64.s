#include "textflag.h"

// func triple(p *byte, n int, first, second, third, fold byte, gap, last int) int
//
// Compares 32 places at a time: the bytes at p with first, those gap further with second, those last further with third.
// fold is OR-ed to each byte before.
TEXT ·triple(SB), NOSPLIT, $0-48
	MOVQ  p+0(FP), SI
	MOVQ  n+8(FP), CX
	MOVBLZX first+16(FP), AX
	MOVQ  AX, X0
	VPBROADCASTB X0, Y0
	MOVBLZX second+17(FP), AX
	MOVQ  AX, X1
	VPBROADCASTB X1, Y1
	MOVBLZX third+18(FP), AX
	MOVQ  AX, X2
	VPBROADCASTB X2, Y2
	MOVBLZX fold+19(FP), AX
	MOVQ  AX, X3
	VPBROADCASTB X3, Y3
	MOVQ  gap+24(FP), DX
	ADDQ  SI, DX
	MOVQ  last+32(FP), DI
	ADDQ  SI, DI
	XORQ  BX, BX

loop:
	CMPQ  BX, CX
	JGE   none
	VPOR  (SI)(BX*1), Y3, Y4
	VPOR  (DX)(BX*1), Y3, Y5
	VPOR  (DI)(BX*1), Y3, Y6
	VPCMPEQB Y0, Y4, Y4
	VPCMPEQB Y1, Y5, Y5
	VPCMPEQB Y2, Y6, Y6
	VPAND Y4, Y5, Y4
	VPAND Y4, Y6, Y4
	VPMOVMSKB Y4, AX
	ADDQ  $32, BX
	TESTL AX, AX
	JZ    loop
	BSFL  AX, AX
	LEAQ  -32(BX)(AX*1), AX
	VZEROUPPER
	MOVQ  AX, ret+40(FP)
	RET

none:
	VZEROUPPER
	MOVQ  $-1, ret+40(FP)
	RET
