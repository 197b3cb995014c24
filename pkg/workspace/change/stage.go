package change

import (
	"errors"
	"io"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/beneath"
	"kaged.dev/pkg/crash"
	"kaged.dev/pkg/parallel"
)

// stage does everything that can be done beside the files: it makes folders and writes the temporary files.
func (b *batch) stage() error {
	for _, key := range b.missing {
		if err := b.makeFolder(key); err != nil {
			return err
		}
	}
	for _, s := range b.steps {
		if s.folder.fd < 0 {
			if err := s.folder.open(); err != nil {
				return s.path.Failure("written", err)
			}
		}
		if s.toFolder != nil && s.toFolder.fd < 0 {
			if err := s.toFolder.open(); err != nil {
				return s.to.Failure("written", err)
			}
		}
	}
	failed := make([]error, len(b.steps))
	b.each(func(i int) { failed[i] = b.steps[i].stage() })
	for _, err := range failed {
		if err != nil {
			return err
		}
	}
	return nil
}

// fewSteps is the least number of steps for which a goroutine pays. The system spends most of the time of a step, with
// its files apart from those of the others.
const fewSteps = 4

// each calls do for every step, on several goroutines if there are many. Steps of different folders take turns: the
// system lets one process at a time make or remove a name in a folder, and the others spin while they wait.
func (b *batch) each(do func(i int)) {
	turn, next := make([]int, len(b.steps)), map[*folder]int{}
	order := make([]int, len(b.steps))
	for i, s := range b.steps {
		turn[i], order[i] = next[s.folder], i
		next[s.folder]++
	}
	slices.SortStableFunc(order, func(i, j int) int { return turn[i] - turn[j] })
	parallel.Each(len(order), fewSteps, func(i int) { do(order[i]) })
}

// makeFolder makes one folder; one made meanwhile by another process is fine.
func (b *batch) makeFolder(key folderKey) error {
	parent, err := beneath.Open(key.root.FD(), path.Dir(key.rel), beneath.Path|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		defer unix.Close(parent)
		err = unix.Mkdirat(parent, path.Base(key.rel), 0o777)
	}
	switch {
	case err == nil:
		b.made = append(b.made, key)
		return nil
	case errors.Is(err, unix.EEXIST):
		return nil
	}
	p := key.root.At(key.rel)
	return p.Failure("made", err)
}

func (f *folder) open() (err error) {
	f.fd, err = beneath.Open(f.key.root.FD(), f.key.rel, beneath.Path|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	return err
}

// stage looks whether things are as they should be and writes the temporary file of one step.
func (s *step) stage() error {
	var st unix.Stat_t
	if s.source != nil {
		if err := unix.Fstatat(s.source.fd, s.sourceName, &st, unix.AT_SYMLINK_NOFOLLOW); err == unix.ENOENT {
			return changed(s.path)
		} else if err != nil {
			return s.path.Failure("written", err)
		}
		if st.Mode&unix.S_IFMT != unix.S_IFREG {
			return s.path.NotRegular()
		}
	}
	switch s.kind {
	case create:
		if versionAt(s.folder.fd, s.name) != (Version{}) {
			return Taken(s.path)
		}
	case move:
		if versionAt(s.toFolder.fd, s.toName) != (Version{}) {
			return Taken(*s.to)
		}
	}
	was := versionOf(&st)
	if s.kind == replace && s.apart {
		was = versionAt(s.folder.fd, s.name)
	}
	if s.kind != create && was != s.was {
		return changed(s.path)
	}
	leaves := s.kind == remove || s.kind == move
	if s.path.InPlace && (leaves || s.apart) {
		return held(s.path)
	}
	if leaves {
		return nil
	}
	return s.path.Failure("written", s.writeTemp(&st))
}

// writeTemp writes the new file under its temporary name, in the form of the old one. Where a new
// file cannot take the old one's form, the step becomes an overwrite of the old one, unless only
// the form is taken.
func (s *step) writeTemp(old *unix.Stat_t) error {
	keepsFile := s.kind == replace && !s.apart
	if keepsFile && (old.Nlink > 1 || s.path.InPlace) {
		return s.copyOld()
	}
	mode := uint32(0o666)
	if s.source != nil {
		mode = firstMode(old)
	}
	fd, err := s.createTemp(mode)
	if err != nil {
		return err
	}
	defer func() { unix.Close(fd) }()
	if err := writeAll(fd, s.data); err != nil {
		return err
	}
	crash.At(crash.FileWritten)
	var own unix.Stat_t
	if err := unix.Fstat(fd, &own); err != nil {
		return err
	}
	if s.source != nil {
		kept, err := s.takeForm(fd, old, &own)
		if err != nil {
			return err
		}
		if !kept && keepsFile && s.writable() {
			if err := unix.Unlinkat(s.folder.fd, s.temp, 0); err != nil {
				return err
			}
			return s.copyOld()
		}
	}
	if s.kind == replace {
		waited, err := s.folder.settle(fd)
		if err == nil && waited {
			err = unix.Fstat(fd, &own) // a server may have set its own time
		}
		if err != nil {
			return err
		}
	}
	s.made = versionOf(&own)
	return nil
}

func (s *step) createTemp(mode uint32) (int, error) {
	return beneath.Retry(func() (int, error) {
		return unix.Openat(s.folder.fd, s.temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
	})
}

// firstMode returns the initial mode of a file that takes the form of an old one: it never grants
// access to a user without access to the old one. Its group is not yet the old one's, so group and
// others both get only the rights they share.
func firstMode(old *unix.Stat_t) uint32 {
	both := old.Mode >> 3 & old.Mode & 0o7
	return uint32(old.Mode&0o700 | both<<3 | both)
}

// takeForm gives a new file owner, attributes and mode of the old one and reports whether it has them all.
func (s *step) takeForm(fd int, old, own *unix.Stat_t) (bool, error) {
	kept := true
	if own.Uid != old.Uid || own.Gid != old.Gid {
		if unix.Fchown(fd, int(old.Uid), int(old.Gid)) != nil {
			// Only root may give a file away, but its group may still be one of ours.
			kept = false
			_ = unix.Fchown(fd, -1, int(old.Gid))
		}
	}
	if !copyAttributes(s.source.fd, s.sourceName, fd, s.plain) {
		kept = false
	}
	mode := s.modeOf(old)
	if uint32(own.Mode) == mode && kept {
		return true, nil
	}
	// Last, because a change of owner clears the set-id bits.
	return kept, unix.Fchmod(fd, mode&0o7777)
}

// writable reports whether the old file itself may be written to.
func (s *step) writable() bool {
	return unix.Faccessat(s.source.fd, s.sourceName, unix.W_OK, unix.AT_EACCESS) == nil
}

// copyOld makes the step one that writes over the old file, and keeps a copy of that under the temporary name, for its
// owner's eyes only.
func (s *step) copyOld() error {
	s.kind = overwrite
	from, err := beneath.Open(s.source.fd, s.sourceName, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	src := os.NewFile(uintptr(from), s.sourceName)
	defer src.Close()
	fd, err := s.createTemp(0o600)
	if err != nil {
		return err
	}
	dst := os.NewFile(uintptr(fd), s.temp)
	_, err = io.Copy(dst, src)
	if closed := dst.Close(); err == nil {
		err = closed
	}
	return err
}
