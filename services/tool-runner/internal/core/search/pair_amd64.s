#include "textflag.h"

// func pair(p *byte, n int, first, second, fold byte, gap int) int
//
// Looks at 32 places at a time: bytes equal to first, and gap bytes on, equal to second. fold is OR-ed to each byte before.
// Reads p[0:n+gap]; n is a multiple of 32. Returns the first place, -1 if there is none.
TEXT ·pair(SB), NOSPLIT, $0-40
	MOVQ  p+0(FP), SI
	MOVQ  n+8(FP), CX
	MOVBLZX first+16(FP), AX
	MOVQ  AX, X0
	VPBROADCASTB X0, Y0
	MOVBLZX second+17(FP), AX
	MOVQ  AX, X1
	VPBROADCASTB X1, Y1
	MOVBLZX fold+18(FP), AX
	MOVQ  AX, X2
	VPBROADCASTB X2, Y2
	MOVQ  gap+24(FP), DX
	ADDQ  SI, DX
	XORQ  BX, BX

loop:
	CMPQ  BX, CX
	JGE   none
	VPOR  (SI)(BX*1), Y2, Y3
	VPOR  (DX)(BX*1), Y2, Y4
	VPCMPEQB Y0, Y3, Y3
	VPCMPEQB Y1, Y4, Y4
	VPAND Y3, Y4, Y3
	VPMOVMSKB Y3, AX
	ADDQ  $32, BX
	TESTL AX, AX
	JZ    loop
	BSFL  AX, AX
	LEAQ  -32(BX)(AX*1), AX
	VZEROUPPER
	MOVQ  AX, ret+32(FP)
	RET

none:
	VZEROUPPER
	MOVQ  $-1, ret+32(FP)
	RET
