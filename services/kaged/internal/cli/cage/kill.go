package cage

import (
	"errors"
	"fmt"

	"kaged.dev/pkg/dsl"
	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
	"kaged.dev/services/kaged/internal/cli/kit"
)

// killedFor are the words for the kill reasons.
var killedFor = map[sandboxsupervisorv1.KillReason]string{
	sandboxsupervisorv1.KillReason_KILL_REASON_OOM:      "oom",
	sandboxsupervisorv1.KillReason_KILL_REASON_PIDS:     "pids",
	sandboxsupervisorv1.KillReason_KILL_REASON_WALLTIME: "walltime",
	sandboxsupervisorv1.KillReason_KILL_REASON_DISK:     "disk",
	sandboxsupervisorv1.KillReason_KILL_REASON_SECCOMP:  "seccomp",
}

// ended returns the exit error of this process for an ended command, in a cage of a policy with these limits.
func ended(a kit.App, exited *sandboxsupervisorv1.ExecExited, limits dsl.Limits, from string) error {
	reason := exited.GetReason()
	if word := killedFor[reason]; word != "" {
		fmt.Fprintf(a.Stderr, "kaged: killed: %s\nkaged: %s\n", word, killSentence(word, limits, from))
	}
	switch code := int(exited.GetExitCode()); {
	case reason == sandboxsupervisorv1.KillReason_KILL_REASON_LOST:
		return own(errors.New("the cage was lost, and the command with it"))
	case code != 0:
		return kit.Exit(code, nil)
	}
	return nil
}

// killSentence names the limit that killed the command, with its value and a remedy. A limit that is not in the policy
// is one of the machine.
func killSentence(word string, l dsl.Limits, from string) string {
	met := func(has bool, what, limit, value, instead string) string {
		if !has {
			return fmt.Sprintf("%s than this machine has for it; limits.%s of %s sets no limit", what, limit, from)
		}
		return fmt.Sprintf("%s than limits.%s of %s, which is %s; raise it, %s", what, limit, from, value, instead)
	}
	switch word {
	case "oom":
		return met(
			l.Memory > 0,
			"what ran in the cage needed more memory",
			"memory",
			dsl.Bytes(l.Memory),
			"or do less at once",
		)
	case "pids":
		return met(
			l.PIDs > 0,
			"there were more processes and threads",
			"pids",
			fmt.Sprint(l.PIDs),
			"or run fewer at once",
		)
	case "disk":
		return met(l.Disk > 0, "it wrote more", "disk", dsl.Bytes(l.Disk), "or write less; what was written stays")
	case "walltime":
		return met(l.Walltime > 0, "it took longer", "walltime", dsl.Span(l.Walltime), "or leave it out for no limit")
	}
	return "it made a system call of another architecture: the program is for another machine, or tries to " +
		"bypass the cage"
}
