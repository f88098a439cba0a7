package wire_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"posthaste/internal/api/wire"
)

// URLs are stored in ASCII, and by earlier versions as they were given (contract, decision
// 30): filters of both forms look for both.
func TestFiltersOutsideASCII(t *testing.T) {
	const given, ascii = "https://bücher.example/größe", "https://xn--bcher-kva.example/gr%C3%B6%C3%9Fe"
	params := parse(t, "url="+given+"&url=https://plain.example/&host=BÜCHER.example:80&path=/größe,/x")
	events, err := wire.Events(params, wire.Count{})
	if err != nil {
		t.Fatal(err)
	}
	letters, err := deadLetters(parse(t, "url="+given))
	if err != nil {
		t.Fatal(err)
	}
	runs, err := liveRuns(parse(t, "workflowUrl="+given+"&host=bücher.example&path=/größe"))
	if err != nil {
		t.Fatal(err)
	}
	failed, err := failedRuns(parse(t, "url="+given))
	if err != nil {
		t.Fatal(err)
	}
	f := events.Filter
	for _, test := range []struct {
		name      string
		got, want []string
	}{
		{"URLs of events", f.URLs, []string{given, ascii, "https://plain.example/"}},
		{"hosts of events", f.Hosts, []string{"BÜCHER.example:80", "xn--bcher-kva.example:80"}},
		{"paths of events", f.Paths, []string{"/größe", "/x", "/größe,/x", "/gr%C3%B6%C3%9Fe", "/gr%C3%B6%C3%9Fe,/x"}},
		{"URLs of dead letters", letters.Filter.URLs, []string{given, ascii}},
		{"beginnings of URLs of runs", runs.Filter.URLPrefixes, []string{given, ascii}},
		{"hosts of runs", runs.Filter.Hosts, []string{"bücher.example", "xn--bcher-kva.example"}},
		{"paths of runs", runs.Filter.Paths, []string{"/größe", "/gr%C3%B6%C3%9Fe"}},
		{"URLs of failed runs", failed.Filter.URLs, []string{given, ascii}},
	} {
		if diff := cmp.Diff(test.want, test.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}
