package box

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/seal"
	"kaged.dev/services/sandbox-supervisor/internal/blueprint"
)

// lack is one reason why this process cannot build cages.
type lack struct {
	// reason describes it.
	reason string
	// option is the entry of the container's security_opt that fixes it; empty outside containers.
	option string
	// command fixes it on the machine, where option is empty.
	command string
}

// The entries of security_opt that docker-compose.yml gives to the container of the supervisor.
const (
	optionSeccomp  = "seccomp:deploy/seccomp.json"
	optionProc     = "systempaths=unconfined"
	optionAppArmor = "apparmor=unconfined"
)

// remedy returns the fix for a layer's error: one text that grants every right that this process lacks. It is empty for
// errors that are no refusal.
func (b *Boxes) remedy(layer string, err error) string {
	if !refusal(err) && !errors.Is(err, unix.ENOSPC) {
		return ""
	}
	found := b.lacks()
	switch {
	case len(found) > 0:
	case errors.Is(err, unix.ENOSPC):
		return "sysctl -w user.max_user_namespaces=15000, which is how many there may be at once"
	default:
		return otherRemedy(layer)
	}
	var options, reasons, commands []string
	for _, l := range found {
		if l.option == "" {
			commands = append(commands, l.command+" ("+l.reason+")")
			continue
		}
		options, reasons = append(options, strconv.Quote(l.option)), append(reasons, l.reason)
	}
	var fixes []string
	if len(options) > 0 {
		fixes = append(fixes, fmt.Sprintf("give this container security_opt: [%s], as docker-compose.yml does (%s)",
			strings.Join(options, ", "), strings.Join(reasons, "; ")))
	}
	return strings.Join(append(fixes, commands...), "; and ")
}

// refusal reports whether an error is a missing permission. An init's error arrives as text.
func refusal(err error) bool {
	return err != nil && (errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) ||
		strings.Contains(err.Error(), unix.EPERM.Error()) || strings.Contains(err.Error(), unix.EACCES.Error()))
}

// otherRemedy is the fix for a refusal without a known cause.
func otherRemedy(layer string) string {
	if layer == blueprint.LayerUser {
		return "let kaged make user namespaces: a security module, or the parent process, forbids them"
	}
	return "let kaged use what its user namespaces give: a security module, or the parent process, forbids it"
}

// findLacks checks the known causes that keep a process from building cages: a seccomp filter, a covered /proc,
// AppArmor and sysctls.
func findLacks() []lack {
	var found []lack
	if names := refusedCalls(); len(names) > 0 {
		found = append(found, lack{
			reason: "its filter of system calls refuses " + strings.Join(names, ", "), option: optionSeccomp,
		})
	}
	if point := coveredProc("/proc/self/mountinfo"); point != "" {
		found = append(found, lack{reason: "its /proc is covered in parts, such as " + point, option: optionProc})
	}
	if name := confinement("/proc/self/attr/current"); name != "" {
		found = append(found, lack{reason: "its AppArmor profile " + name + " refuses mounts", option: optionAppArmor})
	}
	for _, s := range []struct{ name, is, want string }{
		{"user/max_user_namespaces", "0", "15000"},
		{"kernel/unprivileged_userns_clone", "0", "1"},
		{"kernel/apparmor_restrict_unprivileged_userns", "1", "0"},
	} {
		if os.Geteuid() == 0 && strings.HasPrefix(s.name, "kernel/") {
			continue // these bind ordinary users only
		}
		if text, err := os.ReadFile("/proc/sys/" + s.name); err == nil && strings.TrimSpace(string(text)) == s.is {
			key := strings.ReplaceAll(s.name, "/", ".")
			found = append(found, lack{reason: key + " is " + s.is, command: "on the machine: sysctl -w " + key + "=" + s.want})
		}
	}
	return found
}

// refusedCalls returns the names of the system calls that building a cage needs and that a seccomp filter refuses.
// Calls that can only be tried inside a user namespace are left out if none can be made.
func refusedCalls() []string {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil || !strings.Contains(string(status), "\nSeccomp:\t2\n") {
		return nil
	}
	program, err := image()
	if err != nil {
		return nil
	}
	ask := func(arg string, attr *syscall.SysProcAttr) []string {
		cmd := &exec.Cmd{
			Path: "/proc/self/fd/" + strconv.Itoa(int(program.Fd())), Args: []string{"kaged-probe", arg}, Env: initEnv,
			Dir: "/", SysProcAttr: attr,
		}
		var out []byte
		err := seal.Open(func() (err error) {
			out, err = cmd.Output()
			return err
		})
		if err != nil {
			return nil
		}
		return strings.Fields(string(out))
	}
	return slices.Concat(ask(blueprint.ArgCalls, nil), ask(blueprint.ArgCallsInside, &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWUTS,
		AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN},
		UidMappings: []syscall.SysProcIDMap{{ContainerID: blueprint.UID, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: blueprint.GID, HostID: os.Getgid(), Size: 1}},
	}))
}

// coveredProc returns a mount point below /proc, "" if absent: the kernel refuses a user namespace a fresh /proc if the
// visible one is partly covered. A mount on binfmt_misc, an empty folder, does not count.
func coveredProc(mountinfo string) string {
	file, err := os.Open(mountinfo)
	if err != nil {
		return ""
	}
	defer file.Close()
	for sc := bufio.NewScanner(file); sc.Scan(); {
		fields := strings.Fields(sc.Text())
		if len(fields) > 4 && strings.HasPrefix(fields[4], "/proc/") && fields[4] != "/proc/sys/fs/binfmt_misc" {
			return fields[4]
		}
	}
	return ""
}

// confinement returns the name of an enforced AppArmor profile of a container runtime, or "".
func confinement(attr string) string {
	text, err := os.ReadFile(attr)
	if err != nil {
		return ""
	}
	name, mode, _ := strings.Cut(strings.TrimSpace(strings.Trim(string(text), "\x00")), " ")
	if mode != "(enforce)" || !strings.Contains(name, "default") {
		return ""
	}
	return name
}
