package tools

import (
	"kaged.dev/pkg/contract"
)

// maxRefusals is how many different connections a result names that the cage refused.
const maxRefusals = 20

// refusal is a connection that the cage refused while a command ran.
type refusal struct {
	Target string `json:"target" doc:"What was wanted: host:port, a name, an address, or UDP, of which only the number is known."`
	Reason string `json:"reason" doc:"Why it was refused."`
	Count  int64  `json:"count" doc:"How often."`
}

// refusals gathers the connections refused by the cage, bounded. It is used by one goroutine at a
// time.
type refusals []refusal

// add takes a refusal in: with those of its kind, or, where there are many kinds, with the rest.
func (r *refusals) add(a contract.Attempt) {
	for i := range *r {
		if (*r)[i].Target == a.Target && (*r)[i].Reason == a.Rule {
			(*r)[i].Count += a.Count
			return
		}
	}
	switch {
	case len(*r) < maxRefusals:
		*r = append(*r, refusal{a.Target, a.Rule, a.Count})
	case len(*r) == maxRefusals:
		*r = append(*r, refusal{"others", "Connections to further targets were refused.", a.Count})
	default:
		(*r)[maxRefusals].Count += a.Count
	}
}
