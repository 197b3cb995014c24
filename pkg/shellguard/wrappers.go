package shellguard

import "regexp"

// wrapper describes the arguments of a program that starts another.
type wrapper struct {
	options
	// operands is the number of operands before the command. The last one may be missing if it does not match optional.
	operands int
	optional *regexp.Regexp
	// assigns means that NAME=VALUE may precede the command.
	assigns bool
	// quiet are letters of options with which the wrapper starts no command.
	quiet string
	// text are options whose value is shell text, by their letters and names.
	text string
	// splits is an option whose value is split into words that precede the rest.
	splits string
	// folder are options whose value is the command's folder.
	folder string
	// settings is an option whose value is a named setting of the program; some settings are shell text.
	settings string
	// joined means that a shell reads the command, with its words joined.
	joined bool
	// shell means that a shell gets the words after the operands as its arguments. command means that they may also be a
	// command.
	shell, command bool
	// alone marks a program without a command operand, which starts commands only by its options.
	alone bool
	// more means that words are added to the command when it runs; markers are the options that name their placeholder.
	more    bool
	markers string
}

// wrappers are the programs that start others, by name. An unlisted option is read both with and without a value, so a
// missing option causes at most a needless refusal.
var wrappers = map[string]wrapper{
	"env": {
		options: options{"iu:C:S:0va:", "ignore-environment unset= chdir= split-string= null debug argv0= block-signal? " +
			"default-signal? ignore-signal? list-signal-handling help version"},
		assigns: true, splits: "S split-string", folder: "C chdir",
	},
	"sudo": {
		options: options{
			"ABbEeHiKklNnPSsVvC:D:g:h:p:R:r:T:t:U:u:a:c:",
			"askpass auth-type= background bell close-from= login-class= chdir= preserve-env? edit group= set-home help host= " +
				"login remove-timestamp reset-timestamp " +
				"list no-update non-interactive preserve-groups prompt= chroot= role= stdin shell type= command-timeout= " +
				"other-user= user= version validate",
		},
		assigns: true,
	},
	"doas":    {options: options{short: "Lnsa:C:u:"}},
	"pkexec":  {options: options{"", "user= disable-internal-agent keep-cwd help version"}},
	"gosu":    {operands: 1},
	"su-exec": {operands: 1},
	"nice":    {options: options{"n:", "adjustment= help version"}},
	"ionice":  {options: options{"c:n:p:P:u:thV", "class= classdata= pid= pgid= uid= ignore help version"}},
	"chrt": {
		options: options{
			"bdfioraRmpvhVT:P:D:",
			"batch deadline fifo idle other rr reset-on-fork sched-runtime= sched-period= " +
				"sched-deadline= all-tasks max pid verbose help version",
		},
		operands: 1,
		optional: regexp.MustCompile(`^[0-9]+$`),
	},
	"taskset":   {options: options{"acphV", "all-tasks pid cpu-list help version"}, operands: 1},
	"choom":     {options: options{"n:p:hV", "adjust= pid= help version"}},
	"uclampset": {options: options{"m:M:asRp:vhV", "all-tasks system reset-on-fork pid= verbose help version"}},
	"prlimit": {options: options{
		"p:o:hVc::d::e::f::i::l::m::n::q::r::s::t::u::v::x::y::",
		"pid= output= noheadings raw verbose help version core? data? nice? fsize? sigpending? memlock? rss? nofile? " +
			"msgqueue? " +
			"rtprio? stack? cpu? nproc? as? locks? rttime?",
	}},
	"numactl": {
		options: options{long: "all interleave= preferred= physcpubind= cpunodebind= membind= localalloc balancing " +
			"show hardware"},
	},
	"cpulimit": {options: options{"l:e:p:P:zivbfmk", "limit= exe= pid= path= lazy include-children verbose"}},
	"setsid":   {options: options{"cfwhV", "ctty fork wait help version"}},
	"nohup":    {options: options{long: "help version"}},
	"stdbuf":   {options: options{"i:e:o:", "input= error= output= help version"}},
	"time":     {options: options{"apqvVhlf:o:", "append portability quiet verbose format= output= help version"}},
	"timeout": {
		options:  options{"s:k:vfp", "signal= kill-after= verbose foreground preserve-status help version"},
		operands: 1,
	},
	"gtimeout": {
		options:  options{"s:k:vfp", "signal= kill-after= verbose foreground preserve-status help version"},
		operands: 1,
	},
	"command":   {options: options{short: "pvV"}, quiet: "vV"},
	"builtin":   {},
	"exec":      {options: options{short: "cla:"}},
	"noglob":    {},
	"nocorrect": {},
	"busybox":   {options: options{long: "list list-full install help"}},
	"toybox":    {options: options{long: "long help version"}},
	"coproc":    {},
	"strace": {options: options{
		"AcCdDfFhiknNqrtTvVwxyYzZa:b:e:E:I:o:O:p:P:s:S:u:U:X:",
		"env= attach= user= detach-on= daemonize? follow-forks output-separately interruptible= trace= signal= status= " +
			"trace-path= successful-only failed-only columns= " +
			"abbrev= verbose= raw= read= write= quiet? silent? silence? kvm= decode-fds? instruction-pointer stack-traces? " +
			"stack-trace? syscall-number output= output-append-mode " +
			"relative-timestamps? string-limit= absolute-timestamps? timestamps? syscall-times? no-abbrev strings-in-hex? " +
			"const-print-style= decode-pids= summary-only summary " +
			"summary-syscall-overhead= summary-sort-by= summary-columns= summary-wall-clock inject= fault= debug help " +
			"seccomp-bpf tips? version argv0= syscall-limit= secontext? arg0= namespace=",
	}},
	"ltrace": {options: options{
		"bcCfhiLrStTVa:A:D:e:F:l:n:o:p:s:u:w:x:X:",
		"align= config= debug= demangle indent= help library= output= version no-signals where=",
	}},
	"unbuffer":  {options: options{short: "p"}},
	"catchsegv": {},
	"setarch":   {options: setarch, operands: 1, optional: architecture},
	"chroot":    {options: options{long: "userspec= groups= skip-chdir help version"}, operands: 1},
	"nsenter": {options: options{
		"aFZehVct:S:G:W:m::u::i::n::p::C::U::T::r::w::N:",
		"all target= mount? uts? ipc? net? pid? cgroup? user? time? setuid= setgid= preserve-credentials keep-caps " +
			"root? wd? " +
			"wdns= no-fork follow-context env join-cgroup user-parent net-socket= help version",
	}},
	"unshare": {options: options{
		"frchVm::u::i::n::p::U::C::T::R:w:S:G:l:",
		"mount? uts? ipc? net? pid? user? cgroup? time? fork map-user= map-group= map-root-user map-current-user map-auto " +
			"map-subids map-users= map-groups= owner= kill-child? forward-signals " +
			"mount-proc? mount-binfmt? propagation= setgroups= keep-caps root= wd= setuid= setgid= monotonic= boottime= " +
			"load-interp= help version",
	}},
	"setpriv": {options: options{
		"dhV",
		"dump nnp no-new-privs ambient-caps= inh-caps= bounding-set= ruid= euid= rgid= egid= reuid= regid= clear-groups " +
			"keep-groups init-groups groups= securebits= " +
			"pdeathsig= ptracer= selinux-label= apparmor-profile= seccomp-filter= landlock-access= landlock-rule= reset-env " +
			"list-caps help version",
	}},
	"capsh": {options: options{long: "help print"}, shell: true},
	"fish": {
		options: options{
			"DhilNnPvc:C:d:f:o:p:",
			"command= init-command= debug= debug-output= features= profile= profile-startup= interactive login no-config " +
				"no-execute private print-rusage-self print-debug-categories help version",
		},
		shell: true, text: "c C command init-command",
	},
	"ld.so": {options: options{long: "library-path= inhibit-rpath= audit= preload= argv0= glibc-hwcaps-prepend= " +
		"glibc-hwcaps-mask= inhibit-cache list verify list-diagnostics list-tunables help version"}},
	"systemd-run": {options: options{
		"hrdtPqGSvTiH:M:u:p:E:C:",
		"help version no-ask-password user system host= machine= capsule= scope unit= property= description= slice= " +
			"slice-inherit expand-environment= no-block remain-after-exit wait " +
			"send-sighup service-type= uid= gid= nice= working-directory= same-dir root-directory= same-root-dir setenv= pty " +
			"pty-late pipe quiet verbose collect shell job-mode= ignore-failure background= no-pager json= " +
			"path-property= socket-property= on-active= on-boot= on-startup= on-unit-active= on-unit-inactive= on-calendar= " +
			"on-timezone-change on-clock-change timer-property= lightweight=",
	}},
	"systemd-inhibit": {
		options: options{"h", "help version no-ask-password no-pager no-legend what= who= why= mode= list"},
	},
	"systemd-cat": {
		options: options{"ht:p:", "help version identifier= priority= stderr-priority= level-prefix= namespace="},
	},
	"run0": {options: options{"hVu:g:D:iE:", "help version no-ask-password machine= unit= property= description= " +
		"slice= slice-inherit user= group= nice= chdir= setenv= background= pty pipe shell-prompt-prefix= lightweight= " +
		"via-shell"}},
	"bwrap": {options: options{long: "help version args= argv0= level-prefix unshare-all share-net unshare-user " +
		"unshare-user-try unshare-ipc unshare-pid unshare-net unshare-uts unshare-cgroup " +
		"unshare-cgroup-try unshare-user-try userns= userns2= disable-userns assert-userns-disabled pidns= uid= gid= " +
		"hostname= " +
		"chdir= clearenv unsetenv= lock-file= sync-fd= " +
		"exec-label= file-label= proc= dev= tmpfs= mqueue= dir= seccomp= add-seccomp-fd= block-fd= userns-block-fd= " +
		"info-fd= " +
		"json-status-fd= new-session die-with-parent as-pid-1 cap-add= cap-drop= perms= size= remount-ro= " +
		"bind== bind-try== dev-bind== dev-bind-try== ro-bind== ro-bind-try== remap== setenv== file== bind-data== " +
		"ro-bind-data== " +
		"symlink== chmod== overlay-src="}},
	"firejail":         {},
	"fakeroot":         {options: options{"l:s:i:b:uhv", "lib= faked= unknown-is-real fd-base= help version"}},
	"eatmydata":        {},
	"faketime":         {options: options{"mpf:", "exclude-monotonic"}, operands: 1},
	"proxychains":      {options: options{short: "qf:"}},
	"proxychains4":     {options: options{short: "qf:"}},
	"torsocks":         {options: options{"u:p:a:P:diqh", "user= pass= address= port= debug isolate quiet help version"}},
	"tini":             {options: options{short: "hp:sve:wgl"}},
	"dumb-init":        {options: options{"cvr:hV", "single-child verbose rewrite= help version"}},
	"dbus-run-session": {options: options{long: "config-file= dbus-daemon= help version"}},
	"dbus-launch": {options: options{long: "auto-syntax binary-syntax close-stderr exit-with-session exit-with-x11 " +
		"autolaunch= config-file= csh-syntax sh-syntax help version"}},
	"ssh-agent": {options: options{short: "cDdksTa:E:O:P:t:"}},
	"xvfb-run": {options: options{"ade:f:hln:p:s:w:", "auto-servernum auto-display error-file= auth-file= help " +
		"listen-tcp server-num= xauth-protocol= server-args= wait="}},
	"valgrind":   {options: options{short: "qvdh"}},
	"rlwrap":     {},
	"catatonit":  {options: options{short: "ghLPV"}},
	"chronic":    {options: options{short: "ve"}},
	"ifne":       {options: options{short: "n"}},
	"logsave":    {options: options{short: "asv"}, operands: 1},
	"caffeinate": {options: options{short: "disumt:w:"}},
	"setuidgid":  {operands: 1},
	"chpst":      {options: options{short: "vP012u:U:b:e:/:C:n:l:L:m:d:o:p:f:c:t:r:"}},
	"softlimit":  {options: options{short: "m:d:s:l:a:o:p:f:c:r:t:"}},
	"setlock":    {options: options{short: "nNxX"}, operands: 1},
	"entr":       {options: options{short: "acdnprsxz"}, joined: true},
	"watch": {
		options: options{"bcCefgprtwxhvd::n:q:s:", "beep color no-color differences? errexit follow chgexit equexit= exec " +
			"interval= precise no-rerun shotsdir= no-title no-wrap help version"},
		joined: true,
	},
	"ssh": {
		options:  options{short: "46AaCfGgKkMNnqsTtVvXxYyB:b:c:D:E:e:F:I:i:J:L:l:m:O:o:P:p:Q:R:S:W:w:"},
		operands: 1, joined: true, settings: "o",
	},
	"scp":  {options: options{short: "346ABCOpqRrsTvc:D:F:i:J:l:o:P:S:X:"}, alone: true, settings: "o", text: "S"},
	"sftp": {options: options{short: "46AaCfNpqrvB:b:c:D:F:i:J:l:o:P:R:S:s:X:"}, alone: true, settings: "o", text: "S D"},
	"parallel": {
		options: options{
			"0kmXvtqpuhxVj:P:N:I:a:S:C:d:E:e::i::l::L:n:r:s:T:U:J:W:",
			"jobs= max-procs= arg-file= arg-file-sep= arg-sep= colsep= col-sep= delimiter= delay= results= res= joblog= " +
				"sshlogin= sshloginfile= slf= bar eta dry-run dryrun keep-order group ungroup " +
				"line-buffer linebuffer lb tag tagstring= timeout= retries= halt= halt-on-error= progress no-run-if-empty xargs " +
				"null verbose pipe pipepart pipe-part block= block-size= recstart= recend= " +
				"regexp rrs round-robin load= memfree= memsuspend= nice= noswap max-args= max-replace-args= max-chars= " +
				"max-lines? replace? rpl= profile= plain quote shuf shebang semaphore sem id= fg bg wait " +
				"env= record-env workdir= wd= tmpdir= tempdir= tmux tmuxpane termseq= trim= transfer transferfile= tf= return= " +
				"cleanup bf= basefile= ssh= sshdelay= limit= will-cite citation trc= cat fifo " +
				"header= hostgroups line-number shellquote compress compress-program= decompress-program= color color-failed " +
				"files resume resume-failed retry-failed joblog= link skip-first-line seqreplace= " +
				"template= filter= ctag ctrlc number-of-cpus number-of-cores number-of-sockets number-of-threads help version " +
				"interactive exit open-tty tty sql= sqlmaster= sqlworker= sqlandworker= process-slot-var= pty",
		},
		joined: true, more: true, markers: "I i replace", text: "filter limit ssh",
	},
	"flock": {
		options: options{"sexnuoFhVw:E:c:", "shared exclusive unlock nonblock nb timeout= wait= conflict-exit-code= close " +
			"command= no-fork fcntl start= length= verbose help version"},
		operands: 1, text: "c command",
	},
	"script": {
		options: options{
			"adefFkpqrhVt::c:E:I:O:B:T:m:o:",
			"append command= echo= flush force return log-in= log-out= log-io= log-timing= logging-format= output-limit= quiet " +
				"timing? help version",
		},
		operands: 1, text: "c command",
	},
	"su": {
		options: options{
			"mplfPThVc:g:G:s:w:",
			"preserve-environment whitelist-environment= group= supp-group= login command= " +
				"session-command= fast shell= pty no-pty help version",
		},
		operands: 1, shell: true, text: "c command session-command",
	},
	"runuser": {
		options: options{
			"mplfPThVu:c:g:G:s:w:",
			"user= preserve-environment whitelist-environment= group= supp-group= login " +
				"command= session-command= fast shell= pty no-pty help version",
		},
		operands: 1, optional: regexp.MustCompile(`.`), shell: true, command: true, text: "c command session-command",
	},
	"sg": {options: options{short: "c:"}, operands: 1, joined: true, text: "c"},
	"xargs": {
		options: options{
			"0oprtxa:d:E:I:L:n:P:s:J:R:S:e::i::l::",
			"null arg-file= delimiter= eof? replace? max-lines? max-args= open-tty max-procs= interactive process-slot-var= " +
				"no-run-if-empty max-chars= show-limits verbose exit help version",
		},
		more: true, markers: "I J i replace",
	},
	"tar": {
		options: options{"f:C:T:X:b:g:H:I:K:L:N:V:F:", "use-compress-program= to-command= info-script= new-volume-script= " +
			"rsh-command= rmt-command= checkpoint-action="},
		alone: true,
		text:  "I F use-compress-program to-command info-script new-volume-script rsh-command rmt-command checkpoint-action",
	},
	"rsync":     {options: options{"e:f:B:T:M:", "rsh= rsync-path="}, alone: true, text: "e rsh rsync-path"},
	"sort":      {options: options{"k:o:S:t:T:", "compress-program="}, alone: true, text: "compress-program"},
	"split":     {options: options{"a:b:C:l:n:t:", "filter="}, alone: true, text: "filter"},
	"mapfile":   {options: options{short: "td:n:O:s:u:C:c:"}, alone: true, text: "C"},
	"readarray": {options: options{short: "td:n:O:s:u:C:c:"}, alone: true, text: "C"},
	"compgen":   {options: options{short: "abcdefgjksuvo:A:G:W:F:C:X:P:S:V:"}, alone: true, text: "C"},
	"complete":  {options: options{short: "abcdefgjksuvprDEIo:A:G:W:F:C:X:P:S:"}, alone: true, text: "C"},
}

// setarch has another name for each architecture.
var (
	setarch = options{
		"BFILRSTXZ3vhV",
		"32bit fdpic-funcptrs short-inode addr-compat-layout addr-no-randomize whole-seconds sticky-timeouts " +
			"read-implies-exec " +
			"mmap-page-zero 3gb 4gb uname-2.6 verbose list show? help version",
	}
	architecture = regexp.MustCompile(`^(?:uname26|linux(?:32|64)|arch|i[3-6]86|x86_64|athlon|aarch64|` +
		`arm(?:v[5-8].*|64|h)?|ppc(?:32|64)?(?:le)?|s390x?|` +
		`mips(?:32|64)?(?:el)?|sparc(?:32|64|32bash)?|alpha(?:ev.*)?|parisc(?:32|64)?|ia64|riscv(?:32|64)|loongarch64)$`)
)
