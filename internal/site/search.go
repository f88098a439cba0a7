package site

import (
	"bytes"
	"html/template"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// passage is what a search can find: a section of a page, or an operation of the API.
type passage struct {
	Page, Title, Path string
	text              string

	lowerTitle, lowerText string
}

// add makes a passage one of those that can be found.
func (b *built) add(all ...passage) {
	for _, p := range all {
		p.lowerTitle, p.lowerText = lower(p.Title), lower(p.text)
		b.search = append(b.search, p)
	}
}

// lower returns a text in lower case. Letters whose lower case has another length, such as the
// Kelvin sign, stay, so that places in both texts are the same.
func lower(text string) string {
	return strings.Map(func(r rune) rune {
		if l := unicode.ToLower(r); utf8.RuneLen(l) == utf8.RuneLen(r) {
			return l
		}
		return r
	}, text)
}

// passages returns the sections of a page.
func (p *page) passages(at string) []passage {
	var all []passage
	for _, s := range p.sections {
		all = append(all, passage{Page: p.Title, Title: s.title, Path: at + "#" + s.anchor, text: s.text})
	}
	return all
}

// What a search looks at and shows.
const (
	maxWords   = 8
	maxFound   = 30
	snippetLen = 180
	titleCount = 5 // a word in a title counts as often as this in the text
)

var results = template.Must(template.New("results").Parse(`<h1>Search</h1>
{{if .Query}}<p class="lead">{{len .Found}} {{if eq (len .Found) 1}}passage has{{else}}passages have{{end}} all words of “{{.Query}}”{{if .Cut}}; these match best{{end}}.</p>{{else}}<p class="lead">Give one word or more.</p>{{end}}
{{range .Found}}<article><h3><a href="{{.Path}}">{{.Title}}</a></h3><p class="from">{{.Page}}</p><p>{{.Snippet}}</p></article>
{{end}}`))

// find returns a page of the passages that have all words of a query, the best first.
func (b *built) find(query string) *page {
	type found struct {
		passage
		Snippet string
		score   int
	}
	words := strings.Fields(lower(query))
	words = words[:min(len(words), maxWords)]
	var all []found
	for _, p := range b.search {
		score := 0
		for _, word := range words {
			n := titleCount*strings.Count(p.lowerTitle, word) + strings.Count(p.lowerText, word)
			if n == 0 {
				score = 0
				break
			}
			score += n
		}
		if score > 0 {
			all = append(all, found{p, snippet(p.text, p.lowerText, words[0]), score})
		}
	}
	slices.SortStableFunc(all, func(a, b found) int {
		if a.score != b.score {
			return b.score - a.score
		}
		return strings.Compare(a.Path, b.Path)
	})
	cut := len(all) > maxFound
	all = all[:min(len(all), maxFound)]
	var html bytes.Buffer
	err := results.Execute(&html, struct {
		Query string
		Found []found
		Cut   bool
	}{strings.Join(words, " "), all, cut})
	if err != nil {
		panic(err) // it is written to memory
	}
	return &page{Title: "Search", Body: template.HTML(html.String()), Query: query}
}

// withoutMarks removes the marks of Markdown, which a snippet does not render.
var withoutMarks = strings.NewReplacer("`", "", "**", "")

// snippet returns the text around the first place of a word, from the start of a word.
func snippet(text, lower, word string) string {
	at := min(max(strings.Index(lower, word)-snippetLen/3, 0), len(text))
	if at > 0 {
		_, after, _ := strings.Cut(text[at:], " ")
		text = "… " + after
	}
	runes := []rune(strings.Join(strings.Fields(withoutMarks.Replace(text)), " "))
	if len(runes) > snippetLen {
		runes = append(runes[:snippetLen], '…')
	}
	return string(runes)
}
