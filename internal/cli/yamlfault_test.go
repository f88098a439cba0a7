package cli

import "testing"

// TestWantedFaults checks that an error of a file has the line and the words of the file, and
// says what is accepted.
func TestWantedFaults(t *testing.T) {
	for text, want := range map[string]string{
		"queue:\n- name: a\n":                       `file: line 1: "queue" is not a member of the file: queues, groups, schedules, flow are accepted`,
		"queues:\n- name: a\n  paralelism: 4\n":     `file: line 3: "paralelism" is not a member of a queue: name, parallelism, paused are accepted`,
		"queues:\n- parallelism: many\n":            `file: line 2: "parallelism: many" does not have a whole number as its value`,
		"flow:\n- key: a\n  paused: maybe\n":        `file: line 3: "paused: maybe" does not have true or false as its value`,
		"flow:\n- key: a\n  period: soon\n":         `file: line 3: "soon" is not a duration: give numbers with d, h, m, s or ms, such as 7d or 1m30s`,
		"groups: a\nschedules: b\n":                 `file: line 1: "groups: a" does not have a list as its value; line 2: "schedules: b" does not have a list as its value`,
		"groups:\n- name: a\n  endpoints: [{u: b}]": `file: line 3: "u" is not a member of an endpoint: name, url are accepted`,
		"queues: [{name: a b}]":                     `file: queue name "a b" is invalid: letters, digits, hyphens, underscores and periods are accepted`,
		"queues: [":                                 `file: line 1: did not find expected node content`,
	} {
		if _, err := readWanted([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("of %q the error is\n%v, not\n%s", text, err, want)
		}
	}
}
