package tools

import (
	"kaged.dev/pkg/contract"
)

// maxRefusals is the maximum number of different refused connections in a result.
const maxRefusals = 20

// refusal is a connection that the cage refused while a command ran.
type refusal struct {
	Target string `json:"target" doc:"What was wanted: host:port, a name, an address, or UDP, of which only the number is known."`
	Reason string `json:"reason" doc:"Why it was refused."`
	Count  int64  `json:"count" doc:"How often."`
}

// refusals collects the connections that the cage refused, in limited number. One goroutine at a time may use it.
type refusals []refusal

// add adds a refusal: to the entry of its kind or, if there are too many kinds, to the entry of the rest.
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
