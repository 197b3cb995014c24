package toolrunner_test

import (
	"testing"

	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// entries are the entries of an editor's launch.json, by name.
var entries = map[string]string{
	"Report": `{"type":"node","request":"launch","program":"${workspaceFolder}/report.js","args":["7"],` +
		`"env":{"UNIT":"kg"}}`,
	"This":     `{"type":"pwa-node","request":"launch","program":"${file}","cwd":"${workspaceFolder}/data"}`,
	"Attach":   `{"type":"node","request":"attach","port":1}`,
	"Task":     `{"type":"node","request":"launch","program":"a.js","preLaunchTask":"build"}`,
	"Other":    `{"type":"node","request":"launch","program":"a.js","runtimeExecutable":"/tmp/node"}`,
	"Pick":     `{"type":"go","request":"attach","processId":"${command:pickProcess}"}`,
	"Home":     `{"type":"node","request":"launch","program":"${env:HOME}/a.js"}`,
	"Nothing":  `{"type":"node","request":"launch"}`,
	"Wrong":    `{"type":"node","request":"launch","program":["a.js"]}`,
	"Shell":    `{"type":"cpp","request":"launch","program":"${workspaceFolder}/bin/sudo","args":["ls"]}`,
	"Absent":   `{"type":"node","request":"launch","program":"absent.js"}`,
	"Nowhere":  `{"type":"node","request":"attach"}`,
	"Sideways": `{"type":"fortran","request":"launch","program":"report.js"}`,
}

// configured adds the entries to calls.
func configured(tc *toolrunnerv1.ToolContext) {
	tc.Debugging = &commonv1.Debugging{}
	for name, text := range entries {
		entry := &commonv1.DebugConfiguration{Name: name, Json: text}
		tc.Debugging.Configurations = append(tc.Debugging.Configurations, entry)
	}
}

// T-DBG-LAUNCH-03: a program is debugged by the name of an approved entry of .vscode/launch.json: its arguments, its
// variables and its folder apply, and the file named in the call is ${file}.
func TestDebugConfiguration(t *testing.T) {
	t.Parallel()
	c := withDebuggers(t)
	c.write("report.js", "const unit = process.env.UNIT;\nconst text = process.argv[2] + unit + process.cwd();\n"+
		"console.log(text);\n")
	c.write("data/a.txt", "a")
	say := func(input string, parts ...string) {
		t.Helper()
		result, _ := c.debug(input, configured)
		c.want(result, parts...)
	}
	say(`{"action":"launch","configuration":"Report"}`, `"stopped_reason":"entry"`, `"path":"./report.js"`)
	say(`{"action":"set_breakpoint","path":"report.js","line":3}`, `"verified":true`)
	say(`{"action":"continue"}`, `"stopped_reason":"breakpoint"`)
	say(`{"action":"variables","filter":"text"}`, `7kg`+c.root)
	say(`{"action":"disconnect"}`, `"disconnected":true`)
	say(`{"action":"launch","configuration":"This","script":"report.js","args":["9"],"env":{"UNIT":"m"}}`, `"entry"`)
	say(`{"action":"continue"}`, `"exit_code":0`, `9m`+c.root+`/data`)
}

// T-DBG-SEC: the operator's list of blocked commands applies to the program of an entry as to one named in a call.
func TestDebugConfigurationOfABlockedCommand(t *testing.T) {
	t.Parallel()
	c := withDebuggers(t)
	c.write("bin/sudo", "#!/bin/sh\n")
	result, _ := c.debug(`{"action":"launch","configuration":"Shell"}`, configured)
	c.want(result, "command_blocked", "sudo")
	result, _ = c.debug(`{"action":"launch","runtime":"cpp","script":"bin/sudo"}`, configured)
	c.want(result, "command_blocked", "sudo")
}

// An entry that would run another program, or has unknown keys, is refused with the reason.
func TestDebugConfigurationRefusals(t *testing.T) {
	t.Parallel()
	c := withDebuggers(t)
	c.write("report.js", "console.log(1);\n")
	for name, parts := range map[string][]string{
		"Task": {"preLaunchTask", "runs no tasks"}, "Other": {"runtimeExecutable"}, "Pick": {"${command:pickProcess}"},
		"Home": {"${env:HOME}"}, "Nothing": {"program"}, "Wrong": {"another type"}, "Absent": {"absent.js"},
		"Attach": {"attach"}, "Unknown": {"approved"}, "Sideways": {"fortran"}, "This": {"${file}", "script"},
	} {
		action := "launch"
		if name == "Pick" {
			action = "attach"
		}
		result, _ := c.debug(`{"action":"`+action+`","configuration":"`+name+`"}`, configured)
		c.want(result, parts...)
	}
	result, _ := c.debug(`{"action":"attach","configuration":"Nowhere"}`, configured)
	c.want(result, "neither a port nor a process")
	result, _ = c.debug(`{"action":"attach","configuration":"Attach"}`, configured)
	c.want(result, "node --inspect=127.0.0.1:1")
	caged := func(tc *toolrunnerv1.ToolContext) {
		configured(tc)
		tc.Cage = &commonv1.CagePolicy{
			Fs: []*commonv1.CageMount{{Mode: "ro", Path: "./elsewhere"}}, Seccomp: "default", State: "ephemeral",
			Capabilities: []string{"exec"},
		}
	}
	result, _ = c.debug(`{"action":"launch","configuration":"Report"}`, caged)
	c.want(result, "Report", "cage")
}
