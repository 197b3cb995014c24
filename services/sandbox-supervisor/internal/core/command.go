package core

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"kaged.dev/pkg/clip"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
)

// maxString is the maximum length in bytes of an argument or variable in Linux.
const maxString = 128<<10 - 1

// maxTimeout is the maximum time limit, well inside the range of a duration.
const maxTimeout = 365 * 24 * time.Hour

// Size is the size of a terminal in characters.
type Size struct{ Cols, Rows uint32 }

// Command describes a command and its environment.
type Command struct {
	Owner contract.Owner
	// Argv is the program and its arguments.
	Argv []string
	// Dir is the working folder, absolute.
	Dir string
	// Env is the complete environment.
	Env map[string]string
	// Terminal is the size of its terminal, nil for pipes.
	Terminal *Size
	// Merge gives it one pipe for standard output and standard error.
	Merge bool
	// Timeout is its time limit, 0 for none.
	Timeout time.Duration
	// CageID is the command's cage, "" for none. If Cage is also set it must have the same policy. Without a CageID, Cage
	// makes a cage for only this command, in the project at Root.
	CageID string
	Cage   *dsl.Cage
	Root   string
}

// Spec is a validated command for a [Spawner].
type Spec struct {
	Argv []string
	// Env is sorted "key=value".
	Env      []string
	Dir      string
	Terminal *Size // both numbers are set
	Merge    bool
}

// Limits are the limits of commands.
type Limits struct {
	// KillGrace is the time from SIGTERM to SIGKILL after a timeout, CancelGrace in every other case.
	KillGrace, CancelGrace time.Duration
	// MaxCommands is the maximum number of running commands.
	MaxCommands int
	// MaxBytes is the maximum size of a command's arguments and environment together, MaxStrings their maximum number.
	MaxBytes, MaxStrings int
	// InputBytes is the maximum size of unread standard input kept for a command.
	InputBytes int
	// KeptOutput is the retained size of the end of a detached command's output, in bytes.
	KeptOutput int
	// MaxDetached is the maximum number of running detached commands of one owner. EndedPerOwner, EndedBytes and EndedFor
	// limit the remembered ones after their end: their number for one owner, their bytes in total, and the time.
	MaxDetached, EndedPerOwner, EndedBytes int
	EndedFor                               time.Duration
	// MaxCages is the maximum number of cages.
	MaxCages int
	// NoSandbox lets a command that asks for a cage run without one.
	NoSandbox bool
}

// check validates the command for its start. It fails with invalid_params that names the field.
func (c Command) check(l Limits) (Spec, error) {
	if err := checkOwner(c.Owner, "A command"); err != nil {
		return Spec{}, err
	}
	switch {
	case len(c.Argv) == 0 || c.Argv[0] == "":
		return Spec{}, invalid("argv", "A command needs a program.")
	case !filepath.IsAbs(c.Dir):
		return Spec{}, invalid("cwd", "The working folder %q is not an absolute path.", c.Dir)
	case !printable(c.Dir):
		return Spec{}, invalid("cwd", "The working folder %q is not a path.", c.Dir)
	case c.Timeout < 0 || c.Timeout > maxTimeout:
		return Spec{}, invalid("timeout_ms", "The time limit must be between 0 and %d ms.", maxTimeout.Milliseconds())
	case len(c.Argv)+len(c.Env) > l.MaxStrings:
		return Spec{}, invalid(
			"argv",
			"The command has %d arguments and variables; %d are allowed.",
			len(c.Argv)+len(c.Env),
			l.MaxStrings,
		)
	}
	total := 0
	for i, arg := range c.Argv {
		if len(arg) > maxString || !printable(arg) {
			return Spec{}, invalid(
				"argv",
				"Argument %d is longer than %d bytes, or holds a NUL byte or text that is not UTF-8.",
				i,
				maxString,
			)
		}
		total += len(arg) + 1
	}
	spec := Spec{Argv: c.Argv, Dir: c.Dir, Merge: c.Merge, Env: make([]string, 0, len(c.Env))}
	for _, key := range slices.Sorted(maps.Keys(c.Env)) {
		if key == "" || strings.Contains(key, "=") || !printable(key) {
			return Spec{}, invalid(
				"env",
				"The environment has a variable called %q; a name must not be empty or hold '=' or a NUL byte.",
				key,
			)
		}
		pair := key + "=" + c.Env[key]
		if len(pair) > maxString || !printable(pair) {
			return Spec{}, invalid(
				"env",
				"The variable %s is longer than %d bytes, or holds a NUL byte or text that is not UTF-8.",
				key,
				maxString,
			)
		}
		spec.Env = append(spec.Env, pair)
		total += len(pair) + 1
	}
	if total > l.MaxBytes {
		return Spec{}, invalid("argv", "The arguments and the environment are %d bytes; %d are allowed.", total, l.MaxBytes)
	}
	if c.Terminal != nil {
		size, err := c.Terminal.check()
		if err != nil {
			return Spec{}, err
		}
		spec.Terminal = &size
	}
	return spec, nil
}

// check returns the size with the default, 80 by 24, for zeros.
func (s Size) check() (Size, error) {
	if s.Cols == 0 {
		s.Cols = 80
	}
	if s.Rows == 0 {
		s.Rows = 24
	}
	if s.Cols > 0xffff || s.Rows > 0xffff {
		return Size{}, invalid("terminal", "A terminal of %d by %d characters is larger than 65535 by 65535.", s.Cols, s.Rows)
	}
	return s, nil
}

// printable reports whether the system accepts s: it has no NUL byte and is valid UTF-8.
func printable(s string) bool { return strings.IndexByte(s, 0) < 0 && utf8.ValidString(s) }

func invalid(field, format string, args ...any) *fault.Error {
	return fault.New(fault.InvalidParams, format, args...).With("field", field)
}

// maxShown is the maximum length of a shown command line, in characters.
const maxShown = 200

// line returns the command line, shortened.
func line(argv []string) string {
	var b strings.Builder
	for _, arg := range argv {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(arg[:min(len(arg), 4*maxShown+1)])
		if b.Len() > 4*maxShown {
			break
		}
	}
	shown := strings.ToValidUTF8(b.String(), "\uFFFD")
	if _, long := clip.Runes(shown, maxShown); long {
		return clip.MarkedRunes(shown, maxShown-1, "…")
	}
	return shown
}
