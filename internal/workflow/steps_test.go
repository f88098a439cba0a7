package workflow_test

import (
	"testing"
	"time"
)

// TestSteps proves what each kind of step costs and comes to (contract, workflows 1.4
// and 4).
func TestSteps(t *testing.T) {
	for name, c := range map[string]struct {
		flow   flow
		visits []string
		list   []string
		result string
	}{
		"none": {
			flow{},
			[]string{"0 wf start"},
			[]string{"start"},
			"",
		},
		"run": {
			flow{{run("a")}, {run("b")}, {run("c")}},
			[]string{"0 wf start", "1 wf a", "2 wf b", "3 wf c"},
			[]string{"start", "a", "b", "c"},
			"<a> <b> <c>",
		},
		"sleep": {
			flow{{sleep("a", 2*time.Second)}, {run("b")}},
			[]string{"0 wf start", "2001 wf a", "2002 wf b"},
			[]string{"start", "a", "b"},
			"slept <b>",
		},
		"sleep until": {
			flow{{sleepUntil("a", 5*time.Second)}, {sleepUntil("past", time.Second)}},
			[]string{"0 wf start", "5000 wf a", "5001 wf past"},
			[]string{"start", "a", "past"},
			"slept slept",
		},
		"parallel": {
			flow{{run("a"), run("b"), run("c")}, {run("d")}},
			[]string{
				"0 wf start", "1 wf plan a", "1 wf plan b", "1 wf plan c",
				"2 wf a", "2 wf b", "2 wf c", "3 wf d",
			},
			nil,
			"<a> <b> <c> <d>",
		},
		"parallel, slow ones last": {
			flow{{sleep("a", 3*time.Second), run("b"), sleepUntil("c", 2*time.Second)}, {run("d")}},
			[]string{
				"0 wf start", "1 wf plan b", "2 wf b",
				"2000 wf plan c", "2001 wf c", "3001 wf plan a", "3002 wf a", "3003 wf d",
			},
			[]string{"start", "plan a", "plan b", "plan c", "b", "c", "a", "d"},
			"slept <b> slept <d>",
		},
		"groups after each other": {
			flow{{run("a"), sleep("b", time.Second)}, {run("c"), sleep("d", time.Second)}},
			[]string{
				"0 wf start", "1 wf plan a", "2 wf a", "1001 wf plan b", "1002 wf b",
				"1003 wf plan c", "1004 wf c", "2003 wf plan d", "2004 wf d",
			},
			[]string{"start", "plan a", "plan b", "a", "b", "plan c", "plan d", "c", "d"},
			"<a> slept <c> slept",
		},
		"call": {
			flow{{call("a", "http://third/ok", 0)}, {run("b")}},
			[]string{"0 wf start", "1 ok call", "3 wf answer a", "4 wf a", "5 wf b"},
			[]string{"start", "toCallback", "fromCallback", "a", "b"},
			"200answer 200 <b>",
		},
		"calls whose names are outside ASCII": { // contract, decision 29
			flow{{call("José", "http://third/ok", 0)}, {call("患者 é", "http://third/ok", 0)}},
			[]string{
				"0 wf start", "1 ok call", "3 wf answer José", "4 wf José",
				"5 ok call", "7 wf answer 患者 é", "8 wf 患者 é",
			},
			[]string{"start", "toCallback", "fromCallback", "José", "toCallback", "fromCallback", "患者 é"},
			"200answer 200 200answer 200",
		},
		"call answered at the second attempt": {
			flow{{call("a", "http://third/flaky", 2)}},
			[]string{"0 wf start", "1 flaky call", "1003 flaky call again", "1005 wf answer a", "1006 wf a"},
			[]string{"start", "toCallback", "fromCallback", "a"},
			"200answer 200",
		},
		"call that fails": {
			flow{{call("a", "http://third/broken", 1)}, {run("b")}},
			[]string{"0 wf start", "1 broken call", "1003 broken call again", "1005 wf answer a", "1006 wf a", "1007 wf b"},
			[]string{"start", "toCallback", "fromCallback", "a", "b"},
			"500answer 500 <b>",
		},
		"call that is answered that it must not be repeated": { // contract, decision 32
			flow{{call("a", "http://third/final", 2)}, {run("b")}},
			[]string{"0 wf start", "1 final call", "3 wf answer a", "4 wf a", "5 wf b"},
			[]string{"start", "toCallback", "fromCallback", "a", "b"},
			"489answer 489 <b>",
		},
		"call without answer": {
			flow{{call("a", "http://third/silent", 0)}},
			[]string{"0 wf start", "1 silent call", "3 wf answer a", "4 wf a"},
			[]string{"start", "toCallback", "fromCallback", "a"},
			`503{"error":"Service Unavailable","message":"connection reset"}`,
		},
		"calls in parallel": {
			flow{{call("a", "http://third/ok", 0), call("b", "http://third/broken", 0)}},
			[]string{
				"0 wf start", "1 wf plan a", "1 wf plan b", "2 broken call", "2 ok call",
				"4 wf answer a", "4 wf answer b", "5 wf a", "5 wf b",
			},
			nil,
			"200answer 200 500answer 500",
		},
		"wait that times out": {
			flow{{wait("a", "e", 10*time.Second)}, {run("b")}},
			[]string{"0 wf start", "10001 wf a", "10002 wf b"},
			[]string{"start", "a", "b"},
			"timeout <b>",
		},
		"notify before the wait": {
			flow{{notify("a", "r", "e")}, {notify("b", "r", "e")}, {wait("c", "e", time.Hour)}, {wait("d", "e", time.Hour)}},
			[]string{"0 wf start", "1 wf a", "2 wf b", "3 wf c", "4 wf d"},
			[]string{"start", "a", "b", "c", "d"},
			"told told a b",
		},
		"invoke": {
			flow{{invoke("a", site+"child", "")}, {run("b")}},
			[]string{"0 wf start", "1 child start", "2 child x", "3 wf a", "4 wf b"},
			[]string{"start", "a", "b"},
			"[<x>] <b>",
		},
		"invoke what fails": {
			flow{{invoke("a", site+"failing", "")}},
			[]string{"0 wf start", "1 failing start", "3 failing failure", "3 wf a"},
			[]string{"start", "a"},
			"failed",
		},
		"invoke what gives up": {
			flow{{invoke("a", site+"leaving", "")}},
			[]string{"0 wf start", "1 leaving start", "2 wf a"},
			[]string{"start", "a"},
			"cancelled",
		},
		"invoke three deep": {
			flow{{invoke("a", site+"outer", "")}},
			[]string{
				"0 wf start", "1 outer start", "2 middle start", "3 child start", "4 child x",
				"5 middle m", "6 outer o", "7 wf a",
			},
			[]string{"start", "a"},
			"[[[<x>]]]",
		},
		"invoke in parallel": {
			flow{{invoke("a", site+"child", ""), invoke("b", site+"leaving", "")}},
			[]string{
				"0 wf start", "1 wf plan a", "1 wf plan b", "2 child start", "2 leaving start",
				"3 child x", "3 wf b", "4 wf a",
			},
			[]string{"start", "plan a", "plan b", "b", "a"},
			"[<x>] cancelled",
		},
		"invoke what goes on already": {
			flow{{invoke("a", site+"slow", "s"), invoke("b", site+"slow", "s")}},
			[]string{
				"0 wf start", "1 wf plan a", "1 wf plan b", "2 slow start", "1003 slow z",
				"1004 wf a", "1004 wf b",
			},
			nil,
			"[slept] [slept]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			flows := map[string]flow{
				"wf":      c.flow,
				"child":   {{run("x")}},
				"failing": {throw(489)},
				"leaving": {cancel()},
				"outer":   {{invoke("o", site+"middle", "")}},
				"middle":  {{invoke("m", site+"child", "")}},
				"slow":    {{sleep("z", time.Second)}},
			}
			inWorld(t, setup{flows: flows}, func(w *world) {
				w.behave["flaky"] = answers(500, 200)
				w.behave["broken"] = answers(500)
				w.behave["final"] = answers(489)
				w.behave["silent"] = answers(0)
				w.trigger("wf", "r")
				w.pass(time.Minute)
				w.wantVisits(c.visits...)
				if c.list != nil { // else it depends on who was first
					w.wantList("r", c.list...)
				}
				w.wantSuccess("r", c.result)
			})
		})
	}
}
