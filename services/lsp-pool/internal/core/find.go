package core

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"

	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
)

// Found is the server of a language on this machine.
type Found struct {
	Lang string
	// Command is the first command with an installed program, or the first command of the language.
	Command []string
	// Program is the program's path, CagedProgram its path in a server's cage; both are empty for a missing program.
	Program, CagedProgram string
	// CagedReason is the reason why a cage does not show the program.
	CagedReason string
	Install     string
}

// Find looks for the programs of all languages, with the sandbox that starts the servers. It looks from an empty
// project: a cage for a folder of others, such as the one for temporary files, may be refused for what is in it.
func (p *Pool) Find(ctx context.Context) ([]Found, error) {
	empty, err := os.MkdirTemp("", "kaged-find-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(empty)
	v := View{Root: empty}
	entries := v.entries(p.opts.Entries)
	list := make([]Found, len(entries))
	looking, ctx := errgroup.WithContext(ctx)
	looking.SetLimit(p.opts.Parallel)
	for i, e := range entries {
		looking.Go(func() (err error) {
			list[i], err = p.look(ctx, v, e)
			return err
		})
	}
	return list, looking.Wait()
}

// look looks for the program of one language.
func (p *Pool) look(ctx context.Context, v View, e Entry) (Found, error) {
	found := Found{Lang: e.Lang, Command: e.Commands[0], Install: e.Install}
	for _, command := range e.Commands {
		at, err := p.which(ctx, v, e, nil, command[0])
		if err != nil {
			return found, err
		}
		if at[0] != "" {
			found.Command, found.Program = command, at[0]
			break
		}
	}
	if found.Program == "" {
		return found, nil
	}
	policy := p.opts.policy(v, e)
	policy.State = "ephemeral"
	runs := interpreter(inRoot(v.Root, found.Program))
	at, err := p.which(ctx, v, e, policy, found.Command[0], runs)
	switch {
	case ctx.Err() != nil:
		return found, ctx.Err()
	case errors.Is(err, fault.ShellSpawnFailed):
		found.CagedReason = "A cage has no shell to look for it."
	case err != nil:
		found.CagedReason = fault.From(err).Msg
	case at[0] == "":
		found.CagedReason = fmt.Sprintf("A cage does not show %s.", found.Program)
	case runs != "" && at[1] == "":
		found.CagedReason = fmt.Sprintf("A cage does not show %s, the interpreter of %s.", runs, found.Program)
	default:
		found.CagedProgram = at[0]
	}
	return found, nil
}

// which returns the paths of programs as a shell finds them in the environment of an entry's server, empty for missing
// ones.
func (p *Pool) which(ctx context.Context, v View, e Entry, cage *dsl.Cage, names ...string) ([]string, error) {
	const script = `for name; do command -v "$name" || echo; done`
	argv := append([]string{"/bin/sh", "-c", script, "sh"}, names...)
	process, err := p.launcher.Launch(ctx, p.opts.spec(v, e, cage, argv))
	if err != nil {
		return nil, err
	}
	defer process.Close()
	out, err := io.ReadAll(io.LimitReader(process, 64<<10))
	if err != nil {
		return nil, err
	}
	list := make([]string, len(names))
	for i, line := range strings.SplitN(string(out), "\n", len(names)+1)[:len(names)] {
		if strings.Contains(line, "/") { // a name without a slash is a word of the shell itself
			list[i] = line
		}
	}
	return list, nil
}

// interpreter returns the program that runs a script, from the script's first line, "" for a binary program.
func interpreter(path string) string {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // the open does not wait for the writer of a pipe
	if err != nil {
		return ""
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	head := make([]byte, 256)
	n, _ := io.ReadFull(file, head) // a short file is valid too
	line, _, _ := strings.Cut(string(head[:n]), "\n")
	words := strings.Fields(strings.TrimPrefix(line, "#!"))
	if !strings.HasPrefix(line, "#!") || len(words) == 0 {
		return ""
	}
	if filepath.Base(words[0]) != "env" {
		return words[0]
	}
	for _, word := range words[1:] {
		if !strings.HasPrefix(word, "-") && !strings.Contains(word, "=") {
			return word
		}
	}
	return ""
}
