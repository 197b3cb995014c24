package harnesswire

import (
	"kaged.dev/pkg/contract"
	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
)

// Ledger returns the part of a ledger that a run is given.
func Ledger(l contract.Ledger) *harnessv1.Ledger {
	if l.Seq == 0 {
		return nil
	}
	return &harnessv1.Ledger{Last: l.Seq, Entries: LedgerEntries(l.Entries)}
}

// FromLedger is the reverse of [Ledger].
func FromLedger(p *harnessv1.Ledger) contract.Ledger {
	return contract.Ledger{Seq: p.GetLast(), Entries: FromLedgerEntries(p.GetEntries())}
}

// LedgerEntries returns entries of a ledger as messages. The run is that of the stream.
func LedgerEntries(list []contract.LedgerEntry) []*harnessv1.LedgerEntry {
	var out []*harnessv1.LedgerEntry
	for _, e := range list {
		p := &harnessv1.LedgerEntry{
			Number: e.Seq, At: e.At, Step: int32(e.Step), AgentPath: e.Agent, InvocationId: e.InvocationID,
			Kind: string(e.Kind), Path: e.Path, Sha256: e.SHA256, Command: e.Command, Text: e.Text, Ref: e.Ref, Done: e.Done,
		}
		if e.ExitCode != nil {
			code := int32(*e.ExitCode)
			p.ExitCode = &code
		}
		out = append(out, p)
	}
	return out
}

// FromLedgerEntries is the reverse of [LedgerEntries].
func FromLedgerEntries(list []*harnessv1.LedgerEntry) []contract.LedgerEntry {
	var out []contract.LedgerEntry
	for _, p := range list {
		e := contract.LedgerEntry{
			Seq: p.GetNumber(), At: p.GetAt(), Step: int(p.GetStep()), Agent: p.GetAgentPath(),
			InvocationID: p.GetInvocationId(),
			Kind:         contract.LedgerKind(p.GetKind()), Path: p.GetPath(), SHA256: p.GetSha256(), Command: p.GetCommand(),
			Text: p.GetText(), Ref: p.GetRef(), Done: p.GetDone(),
		}
		if p.ExitCode != nil {
			code := int(p.GetExitCode())
			e.ExitCode = &code
		}
		out = append(out, e)
	}
	return out
}
