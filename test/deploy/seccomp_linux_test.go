package deploy

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"

	"kaged.dev/test/deploy/seccompprofile"
)

// The system call filter of the workspace's container is Docker's default and the calls that cages need: worked out for
// a container without capabilities, every other call has the same rules in both.
func TestSeccompProfile(t *testing.T) {
	t.Parallel()
	file := text(t, "deploy", "seccomp.json")
	if want, err := seccompprofile.JSON(); err != nil || string(want) != file {
		t.Fatalf("deploy/seccomp.json is not what it is generated from (%v); run make generate", err)
	}
	standard, err := json.Marshal(seccomp.DefaultProfile())
	if err != nil {
		t.Fatal(err)
	}
	ours, docker := rules(t, []byte(file)), rules(t, standard)
	calls := slices.Sorted(slices.Values([]string{
		"clone", "clone3", "unshare", "mount", "umount2", "pivot_root", "sethostname", "open_tree", "move_mount",
		"mount_setattr",
	}))
	for _, call := range slices.Sorted(maps.Keys(ours)) {
		if slices.Contains(calls, call) {
			if !slices.ContainsFunc(ours[call], func(r string) bool { return r == allowed }) ||
				slices.ContainsFunc(ours[call], refuses) {
				t.Errorf("%s has the rules %v, want it allowed whatever its arguments", call, ours[call])
			}
			continue
		}
		if !slices.Equal(ours[call], docker[call]) {
			t.Errorf("%s has the rules %v, Docker's %v", call, ours[call], docker[call])
		}
	}
	for call := range docker {
		if _, there := ours[call]; !there {
			t.Errorf("%s has lost its rules", call)
		}
	}
}

// allowed is the rule of a call that is allowed with any arguments.
const allowed = `{"action":"SCMP_ACT_ALLOW"}`

func refuses(rule string) bool {
	var r specs.LinuxSyscall
	return json.Unmarshal([]byte(rule), &r) != nil || r.Action != specs.ActAllow
}

// rules returns, as text, the rules of each system call that apply to a container without capabilities.
func rules(t *testing.T, profile []byte) map[string][]string {
	t.Helper()
	spec := &specs.Spec{Process: &specs.Process{Capabilities: &specs.LinuxCapabilities{}}}
	loaded, err := seccomp.LoadProfile(string(profile), spec)
	if err != nil {
		t.Fatal(err)
	}
	if loaded.DefaultAction != specs.ActErrno {
		t.Fatalf("the default is %s", loaded.DefaultAction)
	}
	found := map[string][]string{}
	for _, s := range loaded.Syscalls {
		names := s.Names
		s.Names = nil
		data, err := json.Marshal(struct {
			Action   specs.LinuxSeccompAction `json:"action"`
			ErrnoRet *uint                    `json:"errnoRet,omitempty"`
			Args     []specs.LinuxSeccompArg  `json:"args,omitempty"`
		}{s.Action, s.ErrnoRet, s.Args})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			found[name] = append(found[name], string(data))
		}
	}
	return found
}
