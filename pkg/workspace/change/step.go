package change

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/beneath"
	"kaged.dev/pkg/crash"
	"kaged.dev/pkg/workspace/paths"
)

type kind string

// The kinds of step: effect, undo, and content of the temporary file.
const (
	// A new file takes the name if it is free; the temporary file is the new one until then.
	create kind = "create"
	// The new file and the old one exchange their names; the temporary file is the new one before and the old one after.
	replace kind = "replace"
	// The old file is overwritten; the temporary file is a copy of its content.
	overwrite kind = "overwrite"
	// The file takes the temporary name.
	remove kind = "remove"
	// The file takes another name if that is free.
	move kind = "move"
)

// step is one change that can be seen.
type step struct {
	kind   kind
	path   paths.Path
	folder *folder
	name   string
	temp   string // a name of ours in the same folder
	// source and sourceName are the file that gives a new one its form; they may be nil.
	source     *folder
	sourceName string
	apart      bool // the source is another file than the one that is replaced
	plain      bool // new content has no set-id bits and no capabilities
	// was is the version expected before, made the version the step made.
	was, made Version
	data      []byte
	// begun is when the writing over of the old file began, in nanoseconds since the Unix epoch, zero if it did not.
	begun int64
	// to is where a move goes.
	to       *paths.Path
	toFolder *folder
	toName   string
}

// do makes the change.
func (s *step) do(b *batch) error {
	dir := s.folder.fd
	switch s.kind {
	case create:
		if err := renameNew(dir, s.temp, dir, s.name); errors.Is(err, unix.EEXIST) {
			return Taken(s.path)
		} else if err != nil {
			return s.path.Failure("written", err)
		}
	case replace:
		// The look before spares watchers of the folder a needless exchange; the one after leaves no moment unseen.
		if versionAt(dir, s.name) != s.was {
			return changed(s.path)
		}
		if err := exchange(dir, s.temp, s.name); errors.Is(err, unix.ENOENT) {
			return changed(s.path)
		} else if err != nil {
			return s.path.Failure("written", err)
		}
		if versionAt(dir, s.temp) != s.was {
			return changed(s.path)
		}
	case overwrite:
		return s.path.Failure("written", s.writeOver(b))
	case remove:
		if versionAt(dir, s.name) != s.was {
			return changed(s.path)
		}
		if err := renameNew(dir, s.name, dir, s.temp); err != nil {
			return s.path.Failure("removed", err)
		}
		if versionAt(dir, s.temp) != s.was {
			return changed(s.path)
		}
	case move:
		if versionAt(dir, s.name) != s.was {
			return changed(s.path)
		}
		if err := renameNew(dir, s.name, s.toFolder.fd, s.toName); errors.Is(err, unix.EEXIST) {
			return Taken(*s.to)
		} else if err != nil {
			return s.path.Failure("moved", err)
		}
		if versionAt(s.toFolder.fd, s.toName) != s.was {
			return changed(s.path)
		}
	}
	return nil
}

// undo takes the change back, if it was made and is still in place. Replacements by others stay.
func (s *step) undo() error {
	dir := s.folder.fd
	switch s.kind {
	case create:
		if versionAt(dir, s.name) == s.made {
			return unix.Unlinkat(dir, s.name, 0)
		}
	case replace:
		if versionAt(dir, s.name) == s.made && versionAt(dir, s.temp) != (Version{}) {
			return exchange(dir, s.temp, s.name)
		}
	case overwrite:
		if s.begun != 0 {
			return s.writeBack()
		}
	case remove:
		if versionAt(dir, s.temp) != (Version{}) {
			if err := renameNew(dir, s.temp, dir, s.name); !errors.Is(err, unix.EEXIST) {
				return err
			}
		}
	case move:
		if at := versionAt(s.toFolder.fd, s.toName); at.Ino == s.was.Ino && at.Ino != 0 {
			if err := renameNew(s.toFolder.fd, s.toName, dir, s.name); !errors.Is(err, unix.EEXIST) {
				return err
			}
		}
	}
	return nil
}

// finish removes the temporary file.
func (s *step) finish() {
	if s.temp != "" && s.kind != move && s.folder.fd >= 0 {
		unix.Unlinkat(s.folder.fd, s.temp, 0)
		crash.At(crash.FileCleared)
	}
}

// writeOver writes the new content into the file itself.
func (s *step) writeOver(b *batch) error {
	fd, err := beneath.Open(s.folder.fd, s.name, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO) {
		return changed(s.path)
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if versionOf(&st) != s.was {
		return changed(s.path)
	}
	if err := b.overwriting(s); err != nil {
		return err
	}
	mode := s.modeOf(&st)
	if mode != uint32(st.Mode) {
		if err := unix.Fchmod(fd, mode&0o7777); err != nil {
			return err
		}
	}
	if err := writeAll(fd, s.data); err != nil {
		return err
	}
	if err := unix.Ftruncate(fd, int64(len(s.data))); err != nil {
		return err
	}
	return keepMode(fd, mode)
}

// writeBack restores the file from the copy, and the time of its last change with it.
func (s *step) writeBack() error {
	// Numbers of files are used again, for pipes too.
	var now unix.Stat_t
	if unix.Fstatat(s.folder.fd, s.name, &now, unix.AT_SYMLINK_NOFOLLOW) != nil || now.Mode&unix.S_IFMT != unix.S_IFREG ||
		now.Ino != s.was.Ino || versionOf(&now) == s.was {
		return nil
	}
	from, err := beneath.Open(s.folder.fd, s.temp, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	copied := os.NewFile(uintptr(from), s.temp)
	defer copied.Close()
	data, err := io.ReadAll(copied)
	if err != nil {
		return err
	}
	fd, err := beneath.Open(s.folder.fd, s.name, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Ino != s.was.Ino {
		return nil
	}
	if err := writeAll(fd, data); err != nil {
		return err
	}
	if err := unix.Ftruncate(fd, int64(len(data))); err != nil {
		return err
	}
	if err := keepMode(fd, uint32(st.Mode)); err != nil {
		return err
	}
	times := []unix.Timespec{st.Atim, unix.NsecToTimespec(s.was.Mtime)}
	_ = unix.UtimesNanoAt(s.folder.fd, s.name, times, unix.AT_SYMLINK_NOFOLLOW)
	return nil
}

const setIDs = unix.S_ISUID | unix.S_ISGID

// modeOf returns the mode of the new content of a file.
func (s *step) modeOf(old *unix.Stat_t) uint32 {
	mode := uint32(old.Mode)
	if s.plain {
		mode &^= setIDs
	}
	return mode
}

// keepMode puts back the set-id bits that writing to a file takes away.
func keepMode(fd int, before uint32) error {
	if before&setIDs == 0 {
		return nil
	}
	return unix.Fchmod(fd, before&0o7777)
}

// versionAt returns the version of the file with a name in a folder, the zero Version if it is
// missing or cannot be read.
func versionAt(dir int, name string) Version {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return Version{}
	}
	return versionOf(&st)
}

func writeAll(fd int, data []byte) error {
	for len(data) > 0 {
		n, err := beneath.Retry(func() (int, error) { return unix.Write(fd, data) })
		if err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}
