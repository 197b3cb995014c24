package tool

// Kind is the subject of a requirement.
type Kind string

// The four kinds.
const (
	FS         Kind = "fs"
	Seccomp    Kind = "seccomp"
	Net        Kind = "net"
	Capability Kind = "capability"
)

// Mode is how a path is used.
type Mode string

// The modes.
const (
	ReadOnly  Mode = "ro"
	ReadWrite Mode = "rw"
)

// CallerPath stands for a path the caller names, in requirements that are not yet about one call.
const CallerPath = "caller"

// Requirement is a right that a call needs.
type Requirement struct {
	Kind Kind
	// Mode and Path are of kind fs: the path as the caller wrote it. Field is the parameter it stands in.
	Mode  Mode
	Path  string
	Field string
	// Part means that it is enough if a part of the path is granted; the tool itself leaves out the rest.
	Part bool
	// Alone means that no other call may change the path meanwhile.
	Alone bool
	// Tree means that the file at the path, or files below it, are changed, which of them only the tool finds out. It
	// holds each while it does, and leaves out system paths below.
	Tree bool
	// Name is the profile, the "host:port" or the capability, by kind.
	Name string
}

// ReadPath requires that the caller may read a path.
func ReadPath(field, path string) Requirement {
	return Requirement{Kind: FS, Mode: ReadOnly, Path: path, Field: field}
}

// SearchPath requires that the caller may read some path at or below path.
func SearchPath(field, path string) Requirement {
	return Requirement{Kind: FS, Mode: ReadOnly, Path: path, Field: field, Part: true}
}

// ChangePath requires that the caller may write a path, and excludes other writers meanwhile.
func ChangePath(field, path string) Requirement {
	return Requirement{Kind: FS, Mode: ReadWrite, Path: path, Field: field, Alone: true}
}

// ChangeBelow requires that the caller may write a path and the paths below it, some of which the
// tool will change.
func ChangeBelow(field, path string) Requirement {
	return Requirement{Kind: FS, Mode: ReadWrite, Path: path, Field: field, Tree: true}
}

// WorkIn requires that the caller may write below a path, which is not held.
func WorkIn(field, path string) Requirement {
	return Requirement{Kind: FS, Mode: ReadWrite, Path: path, Field: field}
}

// Can requires a named capability.
func Can(name string) Requirement { return Requirement{Kind: Capability, Name: name} }

// String is how refusals and records name a requirement, such as rw:fs:./src.
func (r Requirement) String() string {
	if r.Kind == FS {
		return string(r.Mode) + ":fs:" + r.Path
	}
	return string(r.Kind) + ":" + r.Name
}
