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
//convert:import time "time"
//convert:import optional "kaged.dev/pkg/optional"
//convert:one BudgetLimit(walltime time.Duration, allowUnpriced bool) contract.Amount *apiv1.BudgetLimit
//convert:with >Usd=optional.NonZero(in.USD()) >Unpriced=unpriced(allowUnpriced)
//convert:with >WalltimeMs=optional.NonZero(walltime.Milliseconds())
//convert:one BudgetUse contract.Amount *apiv1.BudgetUse >Usd=in.USD() >WalltimeMs=-

func unpriced(allow bool) string {
	if allow {
		return "allow"
	}
	return ""
}

// BudgetSpent is [BudgetUse] with the working time if the budget limits that.
func BudgetSpent(a contract.Amount, walltime, worked time.Duration) *apiv1.BudgetUse {
	out := BudgetUse(a)
	if walltime > 0 {
		out.WalltimeMs = proto.Int64(worked.Milliseconds())
	}
	return out
}
