package api

import "testing"

// TestNamesRun checks that no item of a run is taken for another one.
func TestNamesRun(t *testing.T) {
	tests := []struct {
		name, text   string
		may, plainly bool
	}{
		{"plain", `{"Upstash-Workflow-RunId":"r"}`, true, true},
		{"another letter case", `"service-wORKFLOW-rUNID"`, true, true},
		{"escaped", `"Upstash-\u0057orkflow-RunId"`, true, false},
		{"hyphen escaped", `"Upstash-Workflow\u002dRunId"`, true, false},
		{"nothing like it", `{"Upstash-Workflow-Url":"-"}`, false, false},
		{"cut off", `"Workflow-RunI`, false, false},
		{"at the beginning and the end", `Workflow-RunId`, true, true},
		{"a hyphen first", `-RunId`, false, false},
		{"empty", ``, false, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			may, plainly := mayNameRun([]byte(test.text)), namesRun([]byte(test.text))
			if may != test.may || plainly != test.plainly {
				t.Errorf("may be %v, is %v; want %v and %v", may, plainly, test.may, test.plainly)
			}
		})
	}
}
