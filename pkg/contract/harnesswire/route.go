package harnesswire

import (
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/llm"
	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
)

//convert:both Routes FromRoutes map[string]contract.Route map[string]*harnessv1.Route <list
//convert:both route fromRoute contract.Route *harnessv1.Route
//convert:both target fromTarget contract.Target *harnessv1.Target
//convert:both modelFacts fromFacts llm.Facts *harnessv1.ModelFacts
//convert:both price fromPrice *llm.Price *harnessv1.ModelPrice
//convert:use facts verdicts fromVerdict
//convert:one Decision(approvalID string) contract.Decision *harnessv1.ApprovalDecision >ApprovalId=approvalID
//convert:one fromDecision *harnessv1.ApprovalDecision contract.Decision

// facts encodes the known facts of a model, nil without any.
func facts(f llm.Facts) *harnessv1.ModelFacts {
	if f == (llm.Facts{}) {
		return nil
	}
	return modelFacts(f)
}

var verdicts = map[contract.Verdict]harnessv1.ApprovalVerdict{
	contract.Approved: harnessv1.ApprovalVerdict_APPROVAL_VERDICT_APPROVED,
	contract.Denied:   harnessv1.ApprovalVerdict_APPROVAL_VERDICT_DENIED,
	contract.Expired:  harnessv1.ApprovalVerdict_APPROVAL_VERDICT_EXPIRED,
}

// fromVerdict decodes an operator's verdict, an unknown one as a refusal.
func fromVerdict(p harnessv1.ApprovalVerdict) (verdict contract.Verdict) {
	for of, known := range verdicts {
		if known == p {
			verdict = of
		}
	}
	return verdict
}

// FromDecision is the reverse of [Decision].
func FromDecision(p *harnessv1.ApprovalDecision) (approvalID string, d contract.Decision) {
	return p.GetApprovalId(), fromDecision(p)
}
