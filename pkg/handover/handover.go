//go:build unix

// Package handover passes open files from one service to another on the same machine, so that the bytes of a program's
// pipes pass through no third process.
//
// The owner of files offers them and gets a ticket, a random name that it sends to the taker by an RPC. [Take] returns
// the files for a ticket once: from this process, or from another one by its socket, which [Serve] answers. A socket
// needs no other check, because only the receiver of the RPC knows the ticket.
//
// Goroutines: Serve has one per connection, for at most answerTime.
package handover

import (
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/handover/rights"
)

const (
	// ticketBytes is the length of a ticket, filesMost the maximum number of files of one.
	ticketBytes = 26
	filesMost   = 4
	// answerTime limits one connection, connections their number at once.
	answerTime  = time.Second
	connections = 64
)

// errUnknown is the error for a ticket without files: they were taken or withdrawn, or never offered.
var errUnknown = errors.New("no files are offered under this ticket")

// Offer is files that may be taken once. It is safe for concurrent use.
type Offer struct {
	ticket string
	files  []*os.File
	taken  chan struct{} // closed when they are taken

	mu   sync.Mutex // held while they are sent; guards over
	over bool       // they are taken or withdrawn
}

// offers are the offers of this process by ticket.
var offers sync.Map

// New offers files. They are the taker's from then on, and the caller's again after [Offer.Withdraw].
func New(files ...*os.File) *Offer {
	o := &Offer{ticket: rand.Text(), files: files, taken: make(chan struct{})}
	offers.Store(o.ticket, o)
	return o
}

// Ticket returns the name of the offer.
func (o *Offer) Ticket() string { return o.ticket }

// Taken is closed when the files have been taken.
func (o *Offer) Taken() <-chan struct{} { return o.taken }

// Withdraw ends the offer, and reports whether the files are the caller's again: false if they were taken. It waits for
// a taker that is being answered.
func (o *Offer) Withdraw() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case <-o.taken:
		return false
	default:
	}
	o.over = true
	offers.Delete(o.ticket)
	return true
}

// take passes the files of a ticket to give, and ends the offer unless give fails.
func take(ticket string, give func([]*os.File) error) error {
	found, ok := offers.Load(ticket)
	if !ok {
		return errUnknown
	}
	o := found.(*Offer)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.over {
		return errUnknown
	}
	if err := give(o.files); err != nil {
		return err
	}
	o.over = true
	offers.Delete(ticket)
	close(o.taken)
	return nil
}

// Take returns the files of a ticket, which the caller closes. socket is that of the process with the offer; it is not
// used for an offer of this process.
func Take(socket, ticket string) (files []*os.File, err error) {
	err = take(ticket, func(offered []*os.File) error {
		files = offered
		return nil
	})
	if err == nil || socket == "" {
		return files, err
	}
	conn, err := net.DialTimeout("unix", socket, answerTime)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(answerTime)); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(conn, ticket); err != nil {
		return nil, err
	}
	return receive(conn.(*net.UnixConn))
}

// receive reads the answer of a socket.
func receive(conn *net.UnixConn) (files []*os.File, err error) {
	oob := make([]byte, unix.CmsgSpace(4*filesMost))
	syscall.ForkLock.RLock() // for systems without an atomic close-on-exec flag
	_, n, _, _, err := conn.ReadMsgUnix(make([]byte, 1), oob)
	fds, parsed := rights.Parse(oob[:n])
	for _, fd := range fds {
		unix.CloseOnExec(fd)
	}
	syscall.ForkLock.RUnlock()
	if err = errors.Join(err, parsed); err == nil && len(fds) == 0 {
		err = errUnknown
	}
	for _, fd := range fds {
		file := os.NewFile(uintptr(fd), "handover")
		if err != nil {
			file.Close()
			continue
		}
		files = append(files, file)
	}
	return files, err
}

// Listen opens a socket that only its owner may use. It replaces a leftover at the path: the caller is the only process
// that serves its folder.
func Listen(path string) (*net.UnixListener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// Serve answers the takers of this process's offers until the listener is closed. It returns when all connections have
// ended.
func Serve(l *net.UnixListener) {
	var serving sync.WaitGroup
	defer serving.Wait()
	places := make(chan struct{}, connections)
	for {
		conn, err := l.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // such as too many open files
			time.Sleep(answerTime / 100)
			continue
		}
		places <- struct{}{}
		serving.Go(func() {
			defer func() { <-places }()
			defer conn.Close()
			answer(conn)
		})
	}
}

// answer sends a taker the files of its ticket, and closes them. Files that cannot be sent stay offered.
func answer(conn *net.UnixConn) {
	if conn.SetDeadline(time.Now().Add(answerTime)) != nil {
		return
	}
	ticket := make([]byte, ticketBytes)
	if _, err := io.ReadFull(conn, ticket); err != nil {
		return
	}
	_ = take(string(ticket), func(files []*os.File) error { // the taker sees the end of the connection
		if err := send(conn, files); err != nil {
			return err
		}
		for _, file := range files {
			file.Close()
		}
		return nil
	})
}

func send(conn *net.UnixConn, files []*os.File) error {
	fds := make([]int, len(files))
	for i, file := range files {
		raw, err := file.SyscallConn() // not Fd, which would disable the file's deadlines
		if err != nil {
			return err
		}
		// The offer keeps the files open until they are sent.
		if err := raw.Control(func(fd uintptr) { fds[i] = int(fd) }); err != nil {
			return err
		}
	}
	_, _, err := conn.WriteMsgUnix([]byte{0}, unix.UnixRights(fds...), nil)
	return err
}
