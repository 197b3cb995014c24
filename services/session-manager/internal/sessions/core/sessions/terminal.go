package sessions

import (
	"context"
	"strconv"

	"kaged.dev/pkg/check"
	"kaged.dev/pkg/clip"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/redact"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
)

// The bounds of audited input, in bytes: of the input, and of its text in the audit record.
const (
	maxInput     = 64 << 10
	maxInputText = 4 << 10
)

// TerminalInput is an operator's input to a process.
type TerminalInput struct {
	Session string
	Process contract.RunningProcess
	// Data is empty if the input is Hidden: the terminal did not echo it. Length is the size of the input in bytes.
	Data   []byte
	Hidden bool
	Length int64
}

// Terminal returns a background process of the caller's session and the name of its workspace. With an empty
// process it only checks the session. It fails with not_found, gone, process_not_found and unavailable.
func (s *Service) Terminal(ctx context.Context, session, process string) (contract.RunningProcess, string, error) {
	found, err := s.find(ctx, session)
	switch {
	case err != nil:
		return contract.RunningProcess{}, "", err
	case found.State == record.Ended:
		return contract.RunningProcess{}, "", record.Gone()
	case process == "":
		return contract.RunningProcess{}, found.Workspace, nil
	}
	command, err := s.running(ctx, found.Workspace, session, process)
	if err == nil && !command.Background {
		err = fault.New(fault.ProcessNotFound,
			"The process %.80q is no background process; its output is the tool call's.", process).
			With("process_id", process)
	}
	return command, found.Workspace, err
}

// RecordInput stores the audit record of input that the caller is about to send to a process. It fails with
// not_found, gone, validation_failed and stale_lease.
func (s *Service) RecordInput(ctx context.Context, in TerminalInput) error {
	if len(in.Data) > maxInput {
		return check.Field("input", "input must have at most %d bytes.", maxInput)
	}
	l, release, err := s.acquire(ctx, in.Session)
	if err != nil {
		return err
	}
	defer release()
	p := in.Process
	payload := map[string]any{
		"process_id": p.ID, "pid": p.PID, "command": p.Command, "bytes": in.Length, "hidden": in.Hidden,
	}
	if !in.Hidden {
		payload["input"] = clip.Bytes(visible(redact.Mask(string(in.Data))), maxInputText)
	}
	return l.Update(ctx, "", func(current record.Session) (record.Change, error) {
		typed := about(ctx, current, "process.input", payload)
		typed.RunID, typed.AgentPath = p.Owner.RunID, p.Owner.Agent
		return record.Change{At: now(), Audit: []audit.Record{typed}}, nil
	}, nil)
}

// visible returns text with control characters as escapes, such as \x03 or \r.
func visible(text string) string {
	quoted := strconv.QuoteToGraphic(text)
	return quoted[1 : len(quoted)-1]
}
