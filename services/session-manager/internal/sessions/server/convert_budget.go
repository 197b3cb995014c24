package server

import (
	"math"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	"kaged.dev/pkg/check"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
	"kaged.dev/services/session-manager/internal/sessions/core/sessions"
	"kaged.dev/services/session-manager/internal/wire"
)

// budget returns a session's budget with its use.
func budget(b contract.Budget, u record.Use) *apiv1.SessionBudget {
	out := &apiv1.SessionBudget{
		Spent: wire.BudgetSpent(u.Spent(), b.Walltime, u.Worked), Reserved: wire.BudgetUse(u.Reserved),
	}
	if b.Set() {
		out.Limit = wire.BudgetLimit(b.Limit, b.Walltime, b.AllowUnpriced)
	}
	for _, s := range u.ByAgent {
		out.ByAgent = append(out.ByAgent, &apiv1.AgentUse{
			AgentPath: s.Agent, Usd: s.USD(), Tokens: s.Tokens, Calls: s.Calls,
		})
	}
	return out
}

// maxWalltime is the longest budget of working time, in milliseconds.
const maxWalltime = int64(dsl.MaxBudgetWalltime / time.Millisecond)

// budgetField reads a budget or null. It fails with validation_failed for any other value.
func budgetField(v *structpb.Value) (sessions.Field[contract.Budget], error) {
	const field = "budget"
	f := sessions.Field[contract.Budget]{Given: v != nil}
	object, isObject := v.GetKind().(*structpb.Value_StructValue)
	if _, isNull := v.GetKind().(*structpb.Value_NullValue); isNull || v == nil {
		return f, nil
	}
	if !isObject {
		return f, check.Field(field, "budget must be an object or null.")
	}
	var b contract.Budget
	for key, value := range object.StructValue.GetFields() {
		n, isNumber := value.GetKind().(*structpb.Value_NumberValue)
		switch {
		case key == "unpriced" && (value.GetStringValue() == "allow" || value.GetStringValue() == "refuse"):
			b.AllowUnpriced = value.GetStringValue() == "allow"
		case key == "unpriced":
			return f, check.Field(field+"."+key, "budget.unpriced must be refuse or allow.")
		case key == "usd" && isNumber && n.NumberValue >= 0.000001 && n.NumberValue <= dsl.MaxBudgetUSD:
			b.Limit.NanoUSD = dsl.Nano(n.NumberValue)
		case key == "usd":
			return f, check.Field(field+"."+key, "budget.usd must be a number from 0.000001 to %d.", dsl.MaxBudgetUSD)
		case key == "walltime_ms" && isNumber && n.NumberValue >= 1 && n.NumberValue <= float64(maxWalltime) &&
			n.NumberValue == math.Trunc(n.NumberValue):
			b.Walltime = time.Duration(n.NumberValue) * time.Millisecond
		case key == "walltime_ms":
			return f, check.Field(field+"."+key, "budget.walltime_ms must be a whole number from 1 to %d.",
				maxWalltime)
		case key != "tokens" && key != "calls":
			return f, check.Field(field, "budget has usd, tokens, calls, walltime_ms and unpriced.")
		case !isNumber || n.NumberValue < 1 || n.NumberValue > dsl.MaxBudgetTokens ||
			n.NumberValue != math.Trunc(n.NumberValue):
			return f, check.Field(field+"."+key, "budget.%s must be a whole number from 1 to %d.", key, dsl.MaxBudgetTokens)
		case key == "tokens":
			b.Limit.Tokens = int64(n.NumberValue)
		default:
			b.Limit.Calls = int64(n.NumberValue)
		}
	}
	if !b.Set() {
		return f, check.Field(field, "budget needs at least one of usd, tokens, calls and walltime_ms; null clears it.")
	}
	f.Value = &b
	return f, nil
}
