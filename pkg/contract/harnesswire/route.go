package harnesswire

import (
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
)

// Routes returns routes by their alias as messages, nil for nil.
func Routes(routes map[string]contract.Route) map[string]*harnessv1.Route {
	if routes == nil {
		return nil
	}
	out := make(map[string]*harnessv1.Route, len(routes))
	for alias, r := range routes {
		p := &harnessv1.Route{Alias: r.Alias, Targets: make([]*harnessv1.Target, len(r.Targets))}
		for i, t := range r.Targets {
			p.Targets[i] = &harnessv1.Target{
				Provider: t.Provider, Model: t.Model, Driver: t.Driver, ApiKey: t.APIKey, BaseUrl: t.BaseURL,
				Headers: t.Headers, Script: t.Script, Unusable: t.Unusable.Proto(),
				Facts: facts(t.Facts),
			}
		}
		out[alias] = p
	}
	return out
}

// FromRoutes is the reverse of [Routes].
func FromRoutes(routes map[string]*harnessv1.Route) map[string]contract.Route {
	out := make(map[string]contract.Route, len(routes))
	for alias, p := range routes {
		r := contract.Route{Alias: p.GetAlias(), Targets: make([]contract.Target, len(p.GetTargets()))}
		for i, t := range p.GetTargets() {
			r.Targets[i] = contract.Target{Unusable: fault.FromProto(t.GetUnusable()), Target: llm.Target{
				Provider: t.GetProvider(), Model: t.GetModel(), Driver: t.GetDriver(), APIKey: t.GetApiKey(),
				BaseURL: t.GetBaseUrl(), Headers: t.GetHeaders(), Script: t.GetScript(),
				Facts: fromFacts(t.GetFacts()),
			}}
		}
		out[alias] = r
	}
	return out
}

func facts(f llm.Facts) *harnessv1.ModelFacts {
	if f == (llm.Facts{}) {
		return nil
	}
	out := &harnessv1.ModelFacts{ContextWindow: int32(f.ContextWindow), MaxOutput: int32(f.MaxOutput)}
	if p := f.Price; p != nil {
		out.Price = &harnessv1.ModelPrice{
			Input: p.Input, Output: p.Output, CacheRead: p.CacheRead, CacheWrite: p.CacheWrite,
		}
	}
	return out
}

func fromFacts(p *harnessv1.ModelFacts) llm.Facts {
	f := llm.Facts{ContextWindow: int(p.GetContextWindow()), MaxOutput: int(p.GetMaxOutput())}
	if q := p.GetPrice(); q != nil {
		f.Price = &llm.Price{
			Input: q.GetInput(), Output: q.GetOutput(), CacheRead: q.GetCacheRead(), CacheWrite: q.GetCacheWrite(),
		}
	}
	return f
}

var verdicts = map[contract.Verdict]harnessv1.ApprovalVerdict{
	contract.Approved: harnessv1.ApprovalVerdict_APPROVAL_VERDICT_APPROVED,
	contract.Denied:   harnessv1.ApprovalVerdict_APPROVAL_VERDICT_DENIED,
	contract.Expired:  harnessv1.ApprovalVerdict_APPROVAL_VERDICT_EXPIRED,
}

// Decision returns the answer to a request for approval as a message.
func Decision(approvalID string, d contract.Decision) *harnessv1.ApprovalDecision {
	return &harnessv1.ApprovalDecision{ApprovalId: approvalID, Verdict: verdicts[d.Verdict], Comment: d.Comment}
}

// FromDecision is the reverse of [Decision]. A verdict that this build does not know is a refusal.
func FromDecision(p *harnessv1.ApprovalDecision) (approvalID string, d contract.Decision) {
	d.Comment = p.GetComment()
	for verdict, known := range verdicts {
		if known == p.GetVerdict() {
			d.Verdict = verdict
		}
	}
	return p.GetApprovalId(), d
}
