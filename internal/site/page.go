package site

import (
	"bytes"
	"fmt"
	"html/template"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"

	"posthaste/docs"
	"posthaste/internal/openapi"
)

// page is a page of the documentation.
type page struct {
	Title    string
	Body     template.HTML
	Query    string // of the page of the search
	Script   bool   // it has one
	sections []section
}

// section is what stands below a heading.
type section struct{ title, anchor, text string }

var markdown = goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithParserOptions(parser.WithAutoHeadingID()))

// parse reads a page of docs/.
func parse(name string, source []byte) (*page, error) {
	document := markdown.Parser().Parse(text.NewReader(source))
	p := &page{}
	var gone []ast.Node
	err := ast.Walk(document, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := node.(type) {
		case *ast.Heading:
			anchor, _ := n.AttributeString("id")
			id, _ := anchor.([]byte)
			p.sections = append(p.sections, section{title: plain(n, source), anchor: string(id)})
		case *ast.HTMLBlock: // the marks of tests
			gone = append(gone, n)
		case *ast.Link:
			destination, ok := served(name, string(n.Destination))
			if !ok {
				gone = append(gone, n)
			}
			n.Destination = []byte(destination)
		case *ast.Image:
			destination, _ := served(name, string(n.Destination))
			n.Destination = []byte(destination)
		}
		if len(p.sections) > 0 && node.Kind() != ast.KindHeading && node.Type() == ast.TypeBlock && node.Lines() != nil {
			last := &p.sections[len(p.sections)-1]
			last.text += " " + string(node.Lines().Value(source))
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		return nil, err
	}
	for _, node := range gone { // what it says stays
		parent := node.Parent()
		if node.Kind() == ast.KindLink {
			for child := node.FirstChild(); child != nil; child = node.FirstChild() {
				parent.InsertBefore(parent, node, child)
			}
		}
		parent.RemoveChild(parent, node)
	}
	if len(p.sections) == 0 {
		return nil, fmt.Errorf("the page has no heading")
	}
	p.Title = p.sections[0].title
	var html bytes.Buffer
	if err := markdown.Renderer().Render(&html, source, document); err != nil {
		return nil, err
	}
	// What may scroll can be reached by keyboard.
	p.Body = template.HTML(strings.ReplaceAll(html.String(), "<pre>", `<pre tabindex="0">`))
	return p, nil
}

// served returns where a link of a page leads on this server; not ok if it is a file that is not
// served.
func served(from, link string) (string, bool) {
	if strings.HasPrefix(link, "#") || strings.Contains(link, "://") {
		return link, true
	}
	name, anchor, _ := strings.Cut(link, "#")
	if anchor != "" {
		anchor = "#" + anchor
	}
	name = path.Join(path.Dir(from), name)
	if _, err := docs.Files.Open(name); err != nil {
		return "", false
	}
	if path.Ext(name) == ".md" {
		return pathOf(name) + anchor, true
	}
	return "/docs/" + name, true
}

// plain returns the text of a node, without its form.
func plain(node ast.Node, source []byte) string {
	var all strings.Builder
	for child := node.FirstChild(); child != nil; child = child.NextSibling() {
		if t, ok := child.(*ast.Text); ok {
			all.Write(t.Segment.Value(source))
		} else {
			all.WriteString(plain(child, source))
		}
	}
	return all.String()
}

// reference returns the reference of the API, and what the search finds of it.
func reference() (*page, []passage, error) {
	html, err := openapi.Reference()
	if err != nil {
		return nil, nil, err
	}
	document, err := openapi.Parse()
	if err != nil {
		return nil, nil, err
	}
	var passages []passage
	for _, o := range document.Operations() {
		passages = append(passages, passage{
			Page: "API reference", Title: o.Summary, Path: referencePath + "#" + o.ID, text: o.Method + " " + o.Path + " " + o.Description,
		})
	}
	return &page{Title: "API reference", Body: html, Script: true}, passages, nil
}

// link is an entry of the navigation.
type link struct {
	Title, Path string
	Here        bool
}

// render puts a page into the layout.
func (b *built) render(at string, p *page) ([]byte, error) {
	type group struct {
		Title string
		Links []link
	}
	var groups []group
	for _, listed := range navigation {
		g := group{Title: listed.Title}
		for _, name := range listed.Names {
			target := "/docs/" + name
			if b.pages[target] == nil {
				return nil, fmt.Errorf("the navigation lists %s, which is no page", name)
			}
			g.Links = append(g.Links, link{b.pages[target].Title, target, target == at})
		}
		groups = append(groups, g)
	}
	var html bytes.Buffer
	err := b.layout.Execute(&html, struct {
		*page
		Groups    []group
		Reference bool
	}{p, groups, at == referencePath})
	return html.Bytes(), err
}

// llms returns the list of pages for programs that read Markdown (llmstxt.org).
func (b *built) llms() []byte {
	var all bytes.Buffer
	all.WriteString("# Posthaste\n\n> A self-hosted HTTP message delivery service with durable workflows. It speaks the QStash v2 and Upstash Workflow protocols.\n\n## Pages\n\n")
	for _, name := range slices.Sorted(maps.Keys(b.files)) {
		if page := b.pages[pathOf(strings.TrimPrefix(name, "/docs/"))]; page != nil && path.Ext(name) == ".md" {
			fmt.Fprintf(&all, "- [%s](%s)\n", page.Title, name)
		}
	}
	all.WriteString("\n## API\n\n- [OpenAPI description](/openapi.yaml)\n")
	return all.Bytes()
}
