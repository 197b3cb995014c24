package embedded

import (
	"errors"
	"os"
	"sync"
)

// maxLog is the maximum size of the server's log in bytes; as many bytes of older lines are kept.
const maxLog = 8 << 20

// maxTail is the size of the log's end in an error.
const maxTail = 4 << 10

// logFile is a log with a size limit. Its methods may be called from any goroutine.
type logFile struct {
	path string

	mu   sync.Mutex // guards the fields below
	file *os.File
	size int64
	last []byte
}

func openLog(path string) (*logFile, error) {
	l := &logFile{path: path}
	return l, l.open()
}

func (l *logFile) open() error {
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	l.file, l.size = f, info.Size()
	return nil
}

// Write always accepts all of b, because a full disk must not stop the server through its log.
func (l *logFile) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = append(l.last, b...)
	if over := len(l.last) - maxTail; over > 0 {
		l.last = append(l.last[:0], l.last[over:]...)
	}
	if l.file != nil && l.size+int64(len(b)) > maxLog {
		_ = l.file.Close()
		l.file = nil
		if os.Rename(l.path, l.path+".1") == nil {
			_ = l.open()
		}
	}
	if l.file != nil {
		n, _ := l.file.Write(b)
		l.size += int64(n)
	}
	return len(b), nil
}

// tail returns the end of the log.
func (l *logFile) tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.last)
}

// Close closes the file; later writes are lost.
func (l *logFile) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	return err
}
