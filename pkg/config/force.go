package config

import "fmt"

// DormantKey is a key of local.toml that is parsed but has no effect.
type DormantKey struct {
	// Table is its table, such as limits; Name is the key in it.
	Table, Name string
	// Lacks is the missing effect, as the end of a sentence.
	Lacks string
}

// Dormant are the keys without effect. [File.NotInForce] and the reference page derive from this list. A test requires
// a reader for every other key.
var Dormant = []DormantKey{}

// Reason is a sentence that says that the key has no effect.
func (d DormantKey) Reason() string { return d.says(d.Name) }

func (d DormantKey) says(key string) string {
	return fmt.Sprintf("%s is not in force yet: %s.", key, d.Lacks)
}

// NotInForce is a key of a file that has no effect.
type NotInForce struct {
	// Key is the full key, such as limits.sessions_per_project; Message names the missing effect in one sentence.
	Key, Message string
}

// NotInForce returns the keys in the file that have no effect, in the order of [Dormant].
func (f *File) NotInForce() []NotInForce {
	var list []NotInForce
	for _, d := range Dormant {
		for _, key := range f.dormant(d) {
			list = append(list, NotInForce{key, d.says(key)})
		}
	}
	return list
}

// dormant returns the position of d in the file.
func (f *File) dormant(d DormantKey) []string {
	var keys []string
	switch d.Table {
	case "limits":
		set := map[string]int{
			"sessions_per_project": f.Limits.SessionsPerProject, "sessions_per_operator": f.Limits.SessionsPerOperator,
		}
		if set[d.Name] != 0 {
			keys = append(keys, d.Table+"."+d.Name)
		}
	}
	return keys
}
