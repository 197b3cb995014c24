// Package frame is the protocol between the supervisor and the parent processes of commands, its shim and the inits of
// cages: frames over a unix SOCK_SEQPACKET pair, with file descriptors beside them.
//
// A [Frame] is packed field by field, which takes a tenth of the time of JSON, and split into packets if it is longer
// than one; descriptors are sent with its first packet. The peer is trusted, because it belongs to the same build, and
// is nevertheless limited: a frame longer than [Max] or with more than [MaxFiles] descriptors ends the connection.
package frame

import "encoding/json"

// Max is the maximum size of a frame in bytes. A command's arguments stay far below it.
const Max = 16 << 20

// MaxFiles is the maximum number of descriptors of a frame; it is below the limit of Linux, 253.
const MaxFiles = 128

// Op is the kind of a frame.
type Op string

// The supervisor's requests.
const (
	// OpLaunch asks the launcher for an init described by Plan, a blueprint.Launch. The answer is OpStarted with its PID
	// and a pidfd, or OpFailed with the system's error number as Code.
	OpLaunch Op = "launch"
	// OpCleanup sets what the launcher removes if the supervisor ends without OpEnd: Plan is a blueprint.Cleanup. Its file
	// is a pidfd of the supervisor. A later one replaces it; there is no answer.
	OpCleanup Op = "leave"
	// OpEnd tells the launcher or the shim that the supervisor cleans up the host itself; it is the last frame.
	OpEnd Op = "end"
	// OpPrepare sends a cage's init the first part of its work: Plan is a blueprint.Base. It is the init's first frame. It
	// has no answer; after a failure, OpFailed is the answer to OpSetUp.
	OpPrepare Op = "prepare"
	// OpFiles sends files for a later OpSetUp; there is no answer.
	OpFiles Op = "files"
	// OpSetUp makes a cage's init build the cage of Plan; it is the init's next frame except for OpFiles. The answer is
	// OpReady or OpFailed.
	OpSetUp Op = "setup"
	// OpStart starts a command. Its files are standard input, output and error if it has no terminal, then as many as
	// Place says, then the folder of its cgroup if it has one. The answer is OpStarted or OpFailed.
	OpStart Op = "start"
	// OpSignal sends a signal to the command's process group.
	OpSignal Op = "signal"
	// OpTerminate sends SIGTERM to all processes of a command and lets the survivors live on when its main process ends.
	// Sent to a cage's init without a command, it applies to all processes of the cage.
	OpTerminate Op = "terminate"
	// OpKill kills the command with all its descendants.
	OpKill Op = "kill"
	// OpConnect connects to Port at the peer's loopback. Exec is the number of the connection. The answer is OpConnected
	// or OpFailed.
	OpConnect Op = "connect"
)

// The events of the parent process of commands.
const (
	// OpReady is its first frame, sent when it is set up. The files of a cage's init are its sockets, as Plan requires.
	OpReady Op = "ready"
	// OpStarted reports that a command runs. Its files are a pidfd of its main process, if the peer sees another process
	// id, and the terminal's master side, if there is a terminal.
	OpStarted Op = "started"
	// OpFailed reports that a command could not be started, or a cage could not be built.
	OpFailed Op = "failed"
	// OpConnected reports a new connection. Its file is the socket.
	OpConnected Op = "connected"
	// OpExited reports that a command and all its descendants have ended.
	OpExited Op = "exited"
)

// Cause is the reason why a command could not be started.
type Cause string

// The causes.
const (
	// CauseFolder: the working folder does not exist or is not a folder.
	CauseFolder Cause = "folder"
	// CauseProgram: the program is not found or may not be executed.
	CauseProgram Cause = "program"
	// CauseSystem: any other refusal by the system.
	CauseSystem Cause = "system"
)

// Size is the size of a terminal in characters.
type Size struct {
	Cols uint16
	Rows uint16
}

// Frame is one message. Op decides which fields are set.
type Frame struct {
	Op Op
	// Exec is the number of the command, assigned by the supervisor.
	Exec uint64

	// Argv, Env, Dir and Terminal describe a command to start; without Terminal it gets pipes.
	Argv     []string
	Env      []string
	Dir      string
	Terminal *Size
	// Place is the number of files of the cgroups that the command is to enter; see package commands.
	Place int
	// Mark is the mark of the command's processes; see package proc.
	Mark uint64
	// Cgroup means that the last file is the folder of the command's cgroup.
	Cgroup bool

	// Port is the port for OpConnect.
	Port int

	// Signal is the signal to send, or the signal that ended a command.
	Signal int
	// PID is the main process of a running command, or the shim's own pid.
	PID int
	// Plan describes the process for the launcher, or the cage for an init; see package blueprint.
	Plan json.RawMessage
	// Layer is the part of a cage that could not be built.
	Layer string
	// Cause and Text are the reason why a command could not be started; Text is the system's.
	Cause Cause
	Text  string
	// Code is the exit code of a command that was not ended by a signal, or an error number.
	Code int
	// Left is the number of processes of an exited command that could not be killed, usually 0.
	Left int
}
