package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// own returns the folder of this process's cgroup in the cgroup2 hierarchy.
func own() (string, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	cgroups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	return folder(string(mounts), string(cgroups))
}

// folder finds the folder in the texts of /proc/self/mountinfo and /proc/self/cgroup.
func folder(mounts, cgroups string) (string, error) {
	path := "/"
	for line := range strings.Lines(cgroups) {
		if rest, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), "0::"); ok {
			path = rest
		}
	}
	for line := range strings.Lines(mounts) {
		before, after, _ := strings.Cut(line, " - ")
		fields, kind := strings.Fields(before), strings.Fields(after)
		if len(fields) < 6 || len(kind) < 1 || kind[0] != "cgroup2" {
			continue
		}
		root, point := unescape(fields[3]), unescape(fields[4])
		// Only what is below the mount's root can be seen; a process outside of it works at the mount's top.
		if rel, err := filepath.Rel(root, path); err == nil && filepath.IsLocal(rel) {
			return filepath.Join(point, rel), nil
		}
		return point, nil
	}
	return "", errors.New("there is no cgroup2 hierarchy")
}

// unescape undoes the octal escapes of mountinfo.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}
