package run

import (
	"encoding/json"

	"kaged.dev/pkg/client"
	"kaged.dev/pkg/termtext"
	"kaged.dev/services/kaged/internal/cli/kit"
)

// steer prints the state of a message for the active run.
func (p *printer) steer(f client.Frame) {
	var m struct{ State, Content string }
	if json.Unmarshal(f.Payload, &m) != nil {
		return
	}
	said := map[string]string{
		"queued": "waits for the next step", "delivered": "the agent reads now", "next": "begins the next run",
		"kept": "stays for the next message: the run ended first",
	}[m.State]
	if said == "" {
		said = termtext.Line(m.State)
	}
	p.step("» %s (%s)", kit.Brief(m.Content, 200), said)
}
