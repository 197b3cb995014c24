package kit

import (
	"context"
	"errors"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/kaged/internal/daemon"
)

// The exit codes of every command; [exitCodes] explains each in words. `kaged cage exec` has those of its command, and
// exitOwn and the two below it for its own.
const (
	exitOK             = 0
	ExitFailed         = 1
	ExitUsage          = 2
	exitInUse          = 3
	ExitInfrastructure = 3
	ExitOwn            = 125
	ExitNotRun         = 126
	ExitNoProgram      = 127
	ExitCancelled      = 130
)

// ExitCodes explains the exit codes to people, in the help and in the reference.
const ExitCodes = `Exit codes:
  0    done
  1    the operation failed
  2    usage error or invalid project file; retrying will not help
  3    another kaged is using the data directory; tools call: kaged itself failed
  130  cancelled
cage exec returns the command's exit code, or 125 if kaged itself failed.
`

// ExitError is an error that decides the exit code. Its message may be empty where all was said before.
type ExitError struct {
	Code int
	Err  error
}

// Exit returns an error that ends the process with code; err is nil where all was said before.
func Exit(code int, err error) error { return &ExitError{code, err} }

func (e *ExitError) Error() string {
	if e.Err == nil {
		return ""
	}
	return e.Err.Error()
}

func (e *ExitError) Unwrap() error { return e.Err }

// CodeOf is the one place that knows which exit code an error ends the process with.
func CodeOf(err error) int {
	var exit *ExitError
	var inUse *daemon.InUseError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &inUse):
		return exitInUse
	case errors.As(err, &exit):
		return exit.Code
	case errors.Is(err, context.Canceled), errors.Is(err, fault.Cancelled):
		return ExitCancelled
	case wrongAsked(err):
		return ExitUsage
	}
	return ExitFailed
}

// wrongAsked reports whether the mistake is in the command line or the project file: an impossible value, an unknown
// name, a file that does not compile.
func wrongAsked(err error) bool {
	for _, code := range []fault.Code{fault.DSLInvalid, fault.NotFound, fault.ValidationFailed, fault.InvalidParameter} {
		if errors.Is(err, code) {
			return true
		}
	}
	return false
}

// silent reports whether an error needs no sentence: it was reported before, or the user cancelled.
func silent(err error) bool {
	var exit *ExitError
	if errors.As(err, &exit) {
		return exit.Err == nil
	}
	return CodeOf(err) == ExitCancelled
}
