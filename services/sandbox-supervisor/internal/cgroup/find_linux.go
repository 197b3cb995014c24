package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// hierarchies are this process's cgroup folders: in cgroup2, "" without, and by controller in version 1.
type hierarchies struct {
	v2 string
	v1 map[string]string
}

// find returns this process's cgroup folders.
func find() (hierarchies, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return hierarchies{}, err
	}
	cgroups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return hierarchies{}, err
	}
	return hierarchiesIn(string(mounts), string(cgroups)), nil
}

// own returns the folder of this process's cgroup in the cgroup2 hierarchy.
func own() (string, error) {
	h, err := find()
	if err != nil {
		return "", err
	}
	if h.v2 == "" {
		return "", errors.New("there is no cgroup2 hierarchy")
	}
	return h.v2, nil
}

// controllers are the controllers that limit a cage.
var controllers = []string{"memory", "pids", "cpu"}

// hierarchiesIn finds the folders in the texts of /proc/self/mountinfo and /proc/self/cgroup.
func hierarchiesIn(mounts, cgroups string) hierarchies {
	h := hierarchies{v1: map[string]string{}}
	paths := map[string]string{} // by controller, "" for cgroup2
	for line := range strings.Lines(cgroups) {
		fields := strings.SplitN(strings.TrimRight(line, "\n"), ":", 3)
		if len(fields) != 3 {
			continue
		}
		for _, name := range strings.Split(fields[1], ",") {
			paths[name] = fields[2]
		}
	}
	for line := range strings.Lines(mounts) {
		before, after, _ := strings.Cut(line, " - ")
		fields, kind := strings.Fields(before), strings.Fields(after)
		if len(fields) < 6 || len(kind) < 1 {
			continue
		}
		root, point := unescape(fields[3]), unescape(fields[4])
		switch {
		case kind[0] == "cgroup2" && h.v2 == "":
			path := paths[""]
			if path == "" {
				path = "/"
			}
			h.v2 = seen(root, point, path)
		case kind[0] == "cgroup" && len(kind) > 2:
			options := strings.Split(kind[2], ",")
			for _, name := range controllers {
				if path, in := paths[name]; in && h.v1[name] == "" && slices.Contains(options, name) {
					h.v1[name] = seen(root, point, path)
				}
			}
		}
	}
	return h
}

// seen returns the folder of the cgroup at path in a hierarchy with root mounted at point. Only cgroups below the
// mount's root are visible; for a process outside it the folder is the mount point.
func seen(root, point, path string) string {
	if rel, err := filepath.Rel(root, path); err == nil && filepath.IsLocal(rel) {
		return filepath.Join(point, rel)
	}
	return point
}

// unescape undoes the octal escapes of mountinfo.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}
