package change

import (
	"golang.org/x/sys/unix"

	"kaged.dev/pkg/beneath"
	"kaged.dev/pkg/workspace/paths"
)

// Read returns the content of a regular file and its version, for a [Change] of it. Of a file larger than most it
// returns the version only. It fails as [paths.Path.OpenFile] does, and with file_changed_since_read if the file grows
// meanwhile. room returns a slice with a capacity for the content, nil for a new one. Read needs fewer system calls
// than an [os.File], which asks whether it can wait for the file.
func Read(p paths.Path, most int64, room func(int) []byte) ([]byte, Version, error) {
	if p.Exists && !p.Mode.IsRegular() {
		return nil, Version{}, p.NotRegular()
	}
	fd, err := p.OpenFD()
	if err != nil {
		return nil, Version{}, p.Failure("opened", err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, Version{}, p.Failure("opened", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, Version{}, p.NotRegular()
	}
	was := versionOf(&st)
	if was.Size > most {
		return nil, was, nil
	}
	size := int(was.Size) + 1
	var data []byte
	if room == nil {
		data = make([]byte, size)
	} else {
		data = room(size)[:size]
	}
	n := 0
	for n < len(data) {
		got, err := beneath.Retry(func() (int, error) { return unix.Read(fd, data[n:]) })
		if err != nil {
			return nil, was, p.Failure("read", err)
		}
		if n += got; got == 0 || int64(n) == was.Size {
			return data[:n], was, nil
		}
	}
	return nil, was, changed(p)
}
