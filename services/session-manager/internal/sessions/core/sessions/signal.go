package sessions

import (
	"context"
	"slices"
	"strings"

	"kaged.dev/pkg/check"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
)

// processSignals are the signals that an operator can send to a command.
var processSignals = []string{
	"SIGABRT", "SIGCONT", "SIGHUP", "SIGINT", "SIGKILL", "SIGQUIT", "SIGSTOP", "SIGTERM", "SIGUSR1", "SIGUSR2",
}

// SignalProcess sends a signal to the process group of a running command of the caller's session. The audit record
// is stored before the signal is sent. It fails with validation_failed, not_found, gone, process_not_found,
// process_ended, stale_lease and unavailable.
func (s *Service) SignalProcess(ctx context.Context, session, process, signal string) error {
	if !slices.Contains(processSignals, signal) {
		return check.Field("signal", "signal must be one of %s.", strings.Join(processSignals, ", "))
	}
	l, release, err := s.acquire(ctx, session)
	if err != nil {
		return err
	}
	defer release()
	workspace := l.Record().Workspace
	command, err := s.running(ctx, workspace, session, process)
	if err != nil {
		return err
	}
	err = l.Update(ctx, "", func(current record.Session) (record.Change, error) {
		sent := about(ctx, current, "process.signaled", map[string]any{
			"process_id": process, "pid": command.PID, "signal": signal, "command": command.Command,
		})
		sent.RunID, sent.AgentPath = command.Owner.RunID, command.Owner.Agent
		return record.Change{At: now(), Audit: []audit.Record{sent}}, nil
	}, nil)
	if err != nil {
		return err
	}
	return s.Tools.SignalProcess(ctx, workspace, session, process, signal)
}

// running returns a running command of a session. It fails with process_not_found and unavailable.
func (s *Service) running(ctx context.Context, workspace, session, process string) (contract.RunningProcess, error) {
	running, err := s.Tools.Running(ctx, workspace, session)
	if err != nil {
		return contract.RunningProcess{}, err
	}
	at := slices.IndexFunc(running.Processes, func(p contract.RunningProcess) bool { return p.ID == process })
	if at < 0 {
		f := fault.New(fault.ProcessNotFound, "No process %.80q runs for the session; see `kaged ps`.", process)
		return contract.RunningProcess{}, f.With("process_id", process)
	}
	return running.Processes[at], nil
}
