package cli

import (
	"context"
	"errors"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/kaged/internal/daemon"
)

// The exit codes of every command; [exitCodes] says in words what each is for. `kaged cage exec` has those of the command it
// runs, and exitOwn and the two below it for its own.
const (
	exitOK             = 0
	exitFailed         = 1
	exitUsage          = 2
	exitInUse          = 3
	exitInfrastructure = 3
	exitOwn            = 125
	exitNotRun         = 126
	exitNoProgram      = 127
	exitCancelled      = 130
)

// exitCodes explains the exit codes to people, in the help and in the reference.
const exitCodes = `Exit codes:
  0    done
  1    the operation failed
  2    usage error or invalid project file; retrying will not help
  3    another kaged is using the data directory; tools call: kaged itself failed
  130  cancelled
cage exec returns the command's exit code, or 125 if kaged itself failed.
`

// exitError is an error that decides the exit code. Its message may be empty where all was said before.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// codeOf is the one place that knows which exit code an error ends the process with.
func codeOf(err error) int {
	var exit *exitError
	var inUse *daemon.InUseError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &inUse):
		return exitInUse
	case errors.As(err, &exit):
		return exit.code
	case errors.Is(err, context.Canceled), errors.Is(err, fault.Cancelled):
		return exitCancelled
	case wrongAsked(err):
		return exitUsage
	}
	return exitFailed
}

// wrongAsked reports whether the command line or the project file is what is wrong: a value that cannot be, a name of what is
// not there, a file that does not compile.
func wrongAsked(err error) bool {
	for _, code := range []fault.Code{fault.DSLInvalid, fault.NotFound, fault.ValidationFailed, fault.InvalidParameter} {
		if errors.Is(err, code) {
			return true
		}
	}
	return false
}

// silent reports whether nothing more is to be said of an error: all was said before, or whoever cancelled knows.
func silent(err error) bool {
	var exit *exitError
	if errors.As(err, &exit) {
		return exit.err == nil
	}
	return codeOf(err) == exitCancelled
}
