package kit

import (
	"context"
	"errors"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/kaged/internal/daemon"
)

// The exit codes of every command; [ExitCodes] explains them. `kaged cage exec` returns the code of its command, and
// ExitOwn and the two codes after it for its own errors.
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

// ExitError is an error with an exit code. Its message may be empty if all messages were printed before.
type ExitError struct {
	Code int
	Err  error
}

// Exit returns an error that ends the process with code. err is nil if all messages were printed before.
func Exit(code int, err error) error { return &ExitError{code, err} }

func (e *ExitError) Error() string {
	if e.Err == nil {
		return ""
	}
	return e.Err.Error()
}

func (e *ExitError) Unwrap() error { return e.Err }

// CodeOf returns the exit code for an error. No other code determines exit codes.
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

// wrongAsked reports whether the mistake is in the command line or the project file: an invalid value, an unknown name,
// a file that does not compile.
func wrongAsked(err error) bool {
	for _, code := range []fault.Code{fault.DSLInvalid, fault.NotFound, fault.ValidationFailed, fault.InvalidParameter} {
		if errors.Is(err, code) {
			return true
		}
	}
	return false
}

// silent reports whether no sentence is printed for an error, because it was printed before or the user cancelled.
func silent(err error) bool {
	var exit *ExitError
	if errors.As(err, &exit) {
		return exit.Err == nil
	}
	return CodeOf(err) == ExitCancelled
}
