// Package wire converts usage, stats and budgets to the messages that frames and answers share.
package wire

import (
	"time"

	"google.golang.org/protobuf/proto"

	"kaged.dev/pkg/contract"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

//convert:import llm "kaged.dev/pkg/llm"
//convert:one FrameUsage *llm.Usage *apiv1.FrameUsage
//convert:one FrameStats *llm.Stats *apiv1.FrameStats
//convert:one cost *llm.Cost *apiv1.Cost
//convert:one BudgetUse contract.Amount *apiv1.BudgetUse >Usd=in.USD() >WalltimeMs=-

// BudgetLimit returns the limits of a budget as a message; unlimited resources are unset.
func BudgetLimit(a contract.Amount, walltime time.Duration, allowUnpriced bool) *apiv1.BudgetLimit {
	out := &apiv1.BudgetLimit{}
	if allowUnpriced {
		out.Unpriced = "allow"
	}
	if a.NanoUSD > 0 {
		out.Usd = proto.Float64(a.USD())
	}
	if a.Tokens > 0 {
		out.Tokens = &a.Tokens
	}
	if a.Calls > 0 {
		out.Calls = &a.Calls
	}
	if walltime > 0 {
		out.WalltimeMs = proto.Int64(walltime.Milliseconds())
	}
	return out
}

// BudgetSpent is [BudgetUse] with the working time if the budget limits that.
func BudgetSpent(a contract.Amount, walltime, worked time.Duration) *apiv1.BudgetUse {
	out := BudgetUse(a)
	if walltime > 0 {
		out.WalltimeMs = proto.Int64(worked.Milliseconds())
	}
	return out
}
