package dsl

// notInForce maps the keys of a project file that are parsed but have no effect to the missing effect. A key is named
// by its object, as by [Keys]. All keys below such a key have no effect either.
//
// The warnings of [Parse], the JSON Schema and the reference page derive from this list. A test requires every key of
// the schema to be either here or among the keys with an effect.
var notInForce = map[string]string{
	"agent.plugins":               "no plugin is loaded",
	"agent.compaction.checkpoint": "no compaction is proposed",
	"project.workflows":           "no workflow can be invoked",
}

// NotInForceReason returns a sentence that says that a key has no effect, and names the missing effect.
func NotInForceReason(key, reason string) string {
	return key + " is not in force yet: " + reason + "."
}

// markDormant sets the reason in every field of the grammar that is listed in notInForce.
func markDormant(root *shape) {
	eachField(root, func(id string, f *field) {
		if reason, ok := notInForce[id]; ok {
			f.dormant = reason
		}
	})
}

// Keys returns every key of the project file's schema, named by its object: agent.model, cage.net.allow,
// agent.policy.content_gates[].pattern. "*" stands for a free key, "[]" for an element of a list.
func Keys() []string {
	var keys []string
	eachField(projectShape, func(id string, _ *field) { keys = append(keys, id) })
	return keys
}

// eachField calls visit for every field below root once, with its name.
func eachField(root *shape, visit func(id string, f *field)) {
	seen := map[*shape]bool{}
	var walk func(s *shape, name string)
	walk = func(s *shape, name string) {
		if s == nil || seen[s] {
			return
		}
		if s.def != "" {
			seen[s] = true
			name = s.def
		}
		for i := range s.fields {
			f := &s.fields[i]
			id := name + "." + f.name
			visit(id, f)
			walk(f.shape, id)
		}
		walk(s.values, name+".*")
		walk(s.items, name+"[]")
		for _, o := range s.options {
			walk(o, name)
		}
	}
	seen[root] = true
	for i := range root.fields {
		f := &root.fields[i]
		visit("project."+f.name, f)
		walk(f.shape, "project."+f.name)
	}
}
