package harnesswire

import (
	"kaged.dev/pkg/contract"
	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
)

//convert:both ledger FromLedger contract.Ledger *harnessv1.Ledger Seq=Last
//convert:both LedgerEntries FromLedgerEntries []contract.LedgerEntry []*harnessv1.LedgerEntry
//convert:both ledgerEntry fromLedgerEntry contract.LedgerEntry *harnessv1.LedgerEntry Seq=Number Agent=AgentPath
//convert:with <RunID=-

// Ledger encodes the part of a ledger that is sent to a run, nil for an empty one.
func Ledger(l contract.Ledger) *harnessv1.Ledger {
	if l.Seq == 0 {
		return nil
	}
	return ledger(l)
}
