package record_test

import (
	"testing"

	"kaged.dev/pkg/contract"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
)

func push(change func(*contract.Subject)) contract.Subject {
	s := contract.Subject{
		Tool: "shell.bash", Agent: "primary", Reasons: []string{"git push --force is on the list."},
		Command: "git push --force origin main",
		Cwd:     "./", Cage: "c1", Standing: []contract.StandingKind{contract.SameCommand, contract.SameWords},
		Words: []string{"git", "push", "--force", "origin", "main"},
	}
	if change != nil {
		change(&s)
	}
	return s
}

// A standing approval covers the same call, and with kind words also commands with the same first words; another
// tool, agent, cage, folder, reason or form of command needs a new approval.
func TestStandingCovers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change         func(*contract.Subject)
		command, words bool
	}{
		"the same":        {nil, true, true},
		"fewer reasons":   {func(s *contract.Subject) { s.Reasons = nil }, true, true},
		"another branch":  {words("git", "push", "origin", "next"), false, true},
		"another command": {words("git", "reset", "--hard"), false, false},
		"a shorter one":   {words("git"), false, false},
		"another program": {words("gitx", "push", "origin"), false, false},
		"another agent":   {func(s *contract.Subject) { s.Agent = "primary.subagents.x" }, false, false},
		"another tool":    {func(s *contract.Subject) { s.Tool = "shell.exec" }, false, false},
		"another cage":    {func(s *contract.Subject) { s.Cage = "" }, false, false},
		"another folder":  {func(s *contract.Subject) { s.Cwd = "./sub" }, false, false},
		"another reason": {
			func(s *contract.Subject) { s.Reasons = append(s.Reasons, "/etc/x is a system path.") },
			false, false,
		},
		"a file beside it": {func(s *contract.Subject) { s.Paths = []string{"/etc/x"} }, false, false},
		"a chain": {func(s *contract.Subject) {
			s.Command, s.Words, s.Standing = "git push --force origin main; rm -rf /", nil,
				[]contract.StandingKind{contract.SameCommand}
		}, false, false},
		"variables": {func(s *contract.Subject) {
			s.Command = "export GIT_SSH_COMMAND=evil\n" + s.Command
			s.Words, s.Standing = nil, []contract.StandingKind{contract.SameCommand}
		}, false, false},
		"words without the kind": {func(s *contract.Subject) {
			s.Command, s.Standing = "git push x", []contract.StandingKind{contract.SameCommand}
		}, false, false},
		"once only": {func(s *contract.Subject) { s.Standing = nil }, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for kind, want := range map[contract.StandingKind]bool{
				contract.SameCommand: c.command,
				contract.SameWords:   c.words,
			} {
				s := record.Standing{Subject: push(nil), Kind: kind, Words: 2}
				if got := s.Covers(push(c.change)); got != want {
					t.Errorf("%s covers it: %v, want %v", kind, got, want)
				}
			}
		})
	}
	if (record.Standing{Subject: push(nil), Kind: contract.SameWords, Words: 1}).Covers(push(nil)) ||
		(record.Standing{Subject: push(nil), Kind: contract.SameWords, Words: 9}).Covers(push(nil)) ||
		(record.Standing{Subject: push(nil), Kind: "other"}).Covers(push(nil)) {
		t.Error("a standing approval with too few or too many words, or of an unknown kind, covers a call")
	}
}

func words(list ...string) func(*contract.Subject) {
	return func(s *contract.Subject) { s.Words, s.Command = list, "other" }
}

// A change of the same files by the same tool is covered; one of other files or with a command is not.
func TestStandingCoversFiles(t *testing.T) {
	t.Parallel()
	edit := func(paths ...string) contract.Subject {
		return contract.Subject{
			Tool: "edit.text", Agent: "primary", Reasons: []string{"Each write."}, Paths: paths,
			Standing: []contract.StandingKind{contract.SameFiles},
		}
	}
	s := record.Standing{Subject: edit("./a.go"), Kind: contract.SameFiles}
	withCommand := edit("./a.go")
	withCommand.Command = "x"
	for want, of := range map[bool][]contract.Subject{true: {edit("./a.go")}, false: {edit("./b.go"), edit("./a.go",
		"./b.go"), edit(), withCommand}} {
		for _, subject := range of {
			if got := s.Covers(subject); got != want {
				t.Errorf("%v is covered: %v, want %v", subject.Paths, got, want)
			}
		}
	}
}

// The sentence describes the covered calls; a quote in an agent's command cannot end the quoted text.
func TestStandingSentence(t *testing.T) {
	t.Parallel()
	for want, s := range map[string]record.Standing{
		`The command "git push --force origin main" in ./ by shell.bash of primary, in its current cage.`: {
			Subject: push(nil), Kind: contract.SameCommand,
		},
		`Every plain command that begins with the words "git push --force", with any further words, in ./ ` +
			`by shell.bash of primary, in its current cage.`: {
			Subject: push(nil), Kind: contract.SameWords, Words: 3,
		},
		`The command "ls\" in /, and all others" in ./ by shell.bash of primary, without a cage.`: {
			Subject: push(func(s *contract.Subject) { s.Command, s.Cage = `ls" in /, and all others`, "" }),
			Kind:    contract.SameCommand,
		},
	} {
		if got := s.Sentence(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
