// Package frame is the protocol between the supervisor and the processes that own commands, its shim and the inits of
// cages: frames over a unix SOCK_SEQPACKET pair, with file descriptors beside them.
//
// A [Frame] is JSON, cut into packets if it is longer than one; descriptors travel with its first packet. The peer is
// trusted, being of the same build, and nevertheless bounded: a frame longer than [Max] or with more than [MaxFiles]
// descriptors ends the connection.
package frame

import "encoding/json"

// Max is the longest frame in bytes. A command's arguments are bounded far below it, also when every byte of them needs
// an escape in JSON.
const Max = 16 << 20

// MaxFiles is how many descriptors a frame may carry: fewer than the 253 of Linux.
const MaxFiles = 128

// Op is the kind of a frame.
type Op string

// The supervisor's requests.
const (
	// OpLaunch asks the launcher for an init, by Plan, which is a blueprint.Launch. The answer is OpStarted with its
	// PID and a file that stands for it (a pidfd), or OpFailed with the system's error number as Code.
	OpLaunch Op = "launch"
	// OpCleanup tells the launcher what to remove if the supervisor ends without OpEnd: Plan is a blueprint.Cleanup.
	// Its file is a pidfd of the supervisor. A later one replaces it; there is no answer.
	OpCleanup Op = "leave"
	// OpEnd tells the launcher or the shim that the supervisor cleans the host up itself; it is the last frame.
	OpEnd Op = "end"
	// OpPrepare gives a cage's init the first part of its work: Plan is a blueprint.Base. It is the first frame it is
	// sent. It is not answered; if it fails, OpFailed is the answer to OpSetUp.
	OpPrepare Op = "prepare"
	// OpFiles hands over files that a later OpSetUp speaks of; there is no answer.
	OpFiles Op = "files"
	// OpSetUp has a cage's init build the cage of Plan; it is the next frame it is sent but for OpFiles. The answer is
	// OpReady or OpFailed.
	OpSetUp Op = "setup"
	// OpStart starts a command. Its files are standard input, output and error where it has no terminal, then as many
	// as Place says, then its cgroup's folder where it has one. The answer is OpStarted or OpFailed.
	OpStart Op = "start"
	// OpSignal sends a signal to the command's process group.
	OpSignal Op = "signal"
	// OpTerminate sends SIGTERM to all processes of a command and lets the survivors live on when its main process
	// ends. Sent to a cage's init for no command, it is for all processes of the cage.
	OpTerminate Op = "terminate"
	// OpKill kills everything the command started.
	OpKill Op = "kill"
	// OpConnect connects to Port at the peer's loopback. Exec is the number of the connection. The answer is
	// OpConnected or OpFailed.
	OpConnect Op = "connect"
)

// The events of the owner of commands.
const (
	// OpReady is its first frame: it is set up. The files of a cage's init are its sockets, as Plan asked for.
	OpReady Op = "ready"
	// OpStarted says that a command runs. Its files are one that stands for its main process (a pidfd), if its id is
	// another one for the peer, and the terminal's master side, if there is a terminal.
	OpStarted Op = "started"
	// OpFailed says that a command could not be started, or a cage not be built.
	OpFailed Op = "failed"
	// OpConnected says that a connection is made. Its file is the socket.
	OpConnected Op = "connected"
	// OpExited says that a command and everything it started is gone.
	OpExited Op = "exited"
)

// Cause is why a command could not be started.
type Cause string

// The causes.
const (
	// CauseFolder is a working folder that is not there or not a folder.
	CauseFolder Cause = "folder"
	// CauseProgram is a program that is not found or may not be executed.
	CauseProgram Cause = "program"
	// CauseSystem is any other refusal of the system.
	CauseSystem Cause = "system"
)

// Size is the size of a terminal in characters.
type Size struct {
	Cols uint16 `json:"cols"`
	Rows uint16 `json:"rows"`
}

// Frame is one message. Which fields are set depends on Op.
type Frame struct {
	Op Op `json:"op"`
	// Exec is the command the frame is about, a number the supervisor gives.
	Exec uint64 `json:"exec,omitempty"`

	// Argv, Env, Dir and Terminal describe a command to start; no Terminal means pipes.
	Argv     []string `json:"argv,omitempty"`
	Env      []string `json:"env,omitempty"`
	Dir      string   `json:"dir,omitempty"`
	Terminal *Size    `json:"terminal,omitempty"`
	// Place is how many of the files are those of the cgroups it is to be put into; see package commands.
	Place int `json:"place,omitempty"`
	// Mark is the mark of the command's processes; see package proc.
	Mark uint64 `json:"mark,omitempty"`
	// Cgroup says that the last file is the folder of the command's cgroup.
	Cgroup bool `json:"cgroup,omitempty"`

	// Port is where OpConnect connects to.
	Port int `json:"port,omitempty"`

	// Signal is the signal to send, or the one that ended a command.
	Signal int `json:"signal,omitempty"`
	// PID is the main process of a command that runs, or the shim's own.
	PID int `json:"pid,omitempty"`
	// Plan is the process that the launcher starts, or the cage that an init builds; see package blueprint.
	Plan json.RawMessage `json:"plan,omitempty"`
	// Layer is the part of a cage that could not be built.
	Layer string `json:"layer,omitempty"`
	// Cause and Text say why a command could not be started; Text is the system's reason.
	Cause Cause  `json:"cause,omitempty"`
	Text  string `json:"text,omitempty"`
	// Code is the exit code of a command that was not ended by a signal, or an error number.
	Code int `json:"code,omitempty"`
	// Left is how many processes of an exited command could not be killed: 0, but where the system did not let go of one.
	Left int `json:"left,omitempty"`
}
