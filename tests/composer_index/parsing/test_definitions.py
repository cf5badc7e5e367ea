"""What each language defines and imports, in small sources drawn beside it.

Each expected line is `first-last kind symbol`, lines from 1.
"""

from dataclasses import dataclass

import pytest

from composer_index.chunk import ParsedFile
from composer_index.parsing import parse_file


@dataclass(frozen=True)
class Case:
    path: str
    language: str
    source: str
    definitions: str
    imports: tuple[str, ...] = ()


CASES = (
    Case(
        "a.py",
        "python",
        '''\
import os.path, json as j
from . import views
from ..x import y as z, w
from m import *

LIMIT = 3
é = "ünï"; name = 1

# Above.
@wraps(f)
@other
class A(B):
    """Doc."""
    field: int = 1
    def m(self):
        def inner(): pass
    @property
    async def p(self) -> int: ...

async def g(a,
            b): return 1
type Alias = int
''',
        """\
6-6 constant LIMIT
7-7 variable é
7-7 variable name
12-18 class A
14-14 field A.field
15-16 method A.m
16-16 function A.m.inner
18-18 method A.p
20-21 function g
22-22 type Alias
""",
        ("os.path", "json", ".", ".views", "..x", "..x.y", "..x.w", "m"),
    ),
    Case(
        "a.js",
        "javascript",
        """\
import x from "./x.js"; import "side";
export * from "../y";
const fs = require('fs');
/** Doc. */
export default class A extends B {
  #f = 1;
  static handler = () => { go(); }
  constructor(a) { super(a); }
  get v() { return 1; }
}
export const arrow = async (a) => {
  return import("./lazy.js");
};
export function f() {}
function* gen() {}
module.exports.out = function () {};
A.prototype.late = function () {};
const o = { act() {}, run: () => 1 };
let count = 0;
""",
        """\
5-10 class A
6-6 field A.#f
7-7 method A.handler
8-8 method A.constructor
9-9 method A.v
11-13 function arrow
14-14 function f
15-15 function gen
16-16 function out
17-17 function A.late
18-18 constant o
18-18 method o.act
18-18 method o.run
19-19 variable count
""",
        ("./x.js", "side", "../y", "fs", "./lazy.js"),
    ),
    Case(
        "a.ts",
        "typescript",
        """\
import type { T } from './types';
import eq = require("eq");
export interface I<T> { a: string; b(): void }
export abstract class C implements I {
  private x = 1;
  abstract n(): void;
  @dec()
  m<T>(a: T): T { return a; }
}
export enum E { A, B }
type U = string | number;
namespace N { export function inside(): void {} }
declare module "ext" { function decl(): void; }
export const k: number = 1;
""",
        """\
3-3 interface I
3-3 field I.a
3-3 method I.b
4-9 class C
5-5 field C.x
6-6 method C.n
8-8 method C.m
10-10 enum E
10-10 constant E.A
10-10 constant E.B
11-11 type U
12-12 module N
12-12 function N.inside
13-13 module ext
13-13 function ext.decl
14-14 constant k
""",
        ("./types", "eq"),
    ),
    Case(
        "a.tsx",
        "typescriptreact",
        """\
export const View = (p: Props) => <div>{p.x}</div>;
export function App() { return <View x="1" />; }
""",
        """\
1-1 function View
2-2 function App
""",
    ),
    Case(
        "a.go",
        "go",
        """\
package main

import (
	"fmt"
	m "net/http"
)

// Doc.
type Server struct {
	Port int
}

type (
	Doer interface{ Do() }
	ID   = string
)

const Max = 1
var state int

// Start it.
func (s *Server) Start(p int) error {
	return nil
}
func main() { fmt.Println("x") }
""",
        """\
9-11 class Server
10-10 field Server.Port
14-14 interface Doer
14-14 method Doer.Do
15-15 type ID
18-18 constant Max
19-19 variable state
22-24 method Server.Start
25-25 function main
""",
        ("fmt", "net/http"),
    ),
    Case(
        "a.rs",
        "rust",
        """\
use std::collections::{HashMap, HashSet};
mod other;
extern crate serde;
/// Doc.
#[derive(Debug)]
pub struct S<T> { x: T }
pub enum E { A, B(u8) }
impl<T> S<T> {
    pub fn new(x: T) -> Self { S { x } }
}
impl Display for E {
    fn fmt(&self) {}
}
trait Tr { fn need(&self); fn has(&self) {} }
mod inner { pub const K: char = 'é'; fn f() {} }
macro_rules! mac { () => {} }
type A = u8;
static ST: u8 = 1;
""",
        """\
6-6 class S
6-6 field S.x
7-7 enum E
7-7 constant E.A
7-7 constant E.B
9-9 method S.new
12-12 method E.fmt
14-14 interface Tr
14-14 method Tr.need
14-14 method Tr.has
15-15 module inner
15-15 constant inner.K
15-15 function inner.f
16-16 macro mac
17-17 type A
18-18 constant ST
""",
        ("std::collections::{HashMap,HashSet}", "other", "serde"),
    ),
    Case(
        "A.java",
        "java",
        """\
package a.b;
import java.util.List;
import static a.B.c;
import a.b.*;
/** Doc. */
@Ann
public class A<T> extends B {
    static final int K = 1;
    A(int x) { }
    @Override
    public List<T> m(int a)
        throws E { return null; }
    interface I { void go(); }
    enum E { X, Y }
    record R(int a) { }
}
""",
        """\
6-16 class A
8-8 field A.K
9-9 method A.A
10-12 method A.m
13-13 interface A.I
13-13 method A.I.go
14-14 enum A.E
14-14 field A.E.X
14-14 field A.E.Y
15-15 class A.R
""",
        ("java.util.List", "a.B.c", "a.b"),
    ),
    Case(
        "a.c",
        "c",
        """\
#include <stdio.h>
#include "a.h"
#define MAX 10
#define SQ(x) ((x)*(x))
#define GUARD
typedef struct node { int v; } node_t;
typedef int (*cb)(int);
enum color { RED, GREEN };
static const char *names[] = { "a" };
int total = 0;
/* Doc. */
static int add(int a,
               int b)
{
    return a + b;
}
char **find(void) { return 0; }
""",
        """\
3-3 constant MAX
4-4 macro SQ
6-6 type node_t
6-6 class node
6-6 field node.v
7-7 type cb
8-8 enum color
8-8 constant color.RED
8-8 constant color.GREEN
9-9 variable names
10-10 variable total
12-16 function add
17-17 function find
""",
        ("stdio.h", "a.h"),
    ),
    Case(
        "a.cpp",
        "cpp",
        """\
#include <vector>
namespace ns {
template <typename T>
class Box : public Base {
 public:
  Box() {}
  T get() const { return v; }
  bool operator==(const Box &o) const { return true; }
 private:
  T v;
};
struct P { int x; };
using Str = std::string;
}  // namespace ns
void ns::Box::late(int a) { }
int &ref() { static int x; return x; }
""",
        """\
2-14 module ns
4-11 class ns.Box
6-6 method ns.Box.Box
7-7 method ns.Box.get
8-8 method ns.Box.operator==
10-10 field ns.Box.v
12-12 class ns.P
12-12 field ns.P.x
13-13 type ns.Str
15-15 function ns.Box.late
16-16 function ref
""",
        ("vector",),
    ),
    Case(
        "a.cs",
        "csharp",
        """\
using System;
using Sys = System.Text;
using static System.Math;
namespace N.M {
  /// <summary>Doc.</summary>
  [Attr]
  public class A : B {
    private int f = 1;
    public string Name { get; set; }
    public A() { }
    public void Run(int a) { int Local(int x) => x; }
  }
  interface I { void Go(); }
  enum E { X }
  record R(int A);
  struct S { }
  delegate void D(int x);
}
""",
        """\
4-18 module N.M
6-12 class N.M.A
8-8 field N.M.A.f
9-9 field N.M.A.Name
10-10 method N.M.A.A
11-11 method N.M.A.Run
11-11 function N.M.A.Run.Local
13-13 interface N.M.I
13-13 method N.M.I.Go
14-14 enum N.M.E
14-14 field N.M.E.X
15-15 class N.M.R
16-16 class N.M.S
17-17 type N.M.D
""",
        ("System", "System.Text", "System.Math"),
    ),
    Case(
        "a.rb",
        "ruby",
        """\
require "json"
require_relative 'lib/x'
module M
  LIMIT = 1
  # Doc.
  class A < B
    attr_reader :x
    def initialize(x)
      @x = x
    end
    def self.make; end
    def ok?; true end
  end
end
def top(a) = a
""",
        """\
3-14 module M
4-4 constant M.LIMIT
6-13 class M.A
7-7 field M.A.x
8-10 method M.A.initialize
11-11 method M.A.make
12-12 method M.A.ok?
15-15 function top
""",
        ("json", "lib/x"),
    ),
    Case(
        "a.php",
        "php",
        """\
<?php
namespace App;
use Foo\\Bar;
use A\\{B, C};
require_once 'x.php';
const K = 1;
interface I { public function go(); }
trait T { }
/** Doc. */
class A extends B {
    const L = 2;
    public $p = 1;
    public function m(int $a): int { return 1; }
}
enum E { case X; }
function f() {}
""",
        """\
6-6 constant K
7-7 interface I
7-7 method I.go
8-8 class T
10-14 class A
11-11 constant A.L
12-12 field A.p
13-13 method A.m
15-15 enum E
15-15 field E.X
16-16 function f
""",
        ("Foo\\Bar", "B", "C", "x.php"),
    ),
    Case(
        "a.lua",
        "lua",
        """\
local json = require("json")
local M = {}
function M.new(x) return x end
function M:go() end
local function helper() end
M.late = function(a) end
local t = { cb = function() end }
return M
""",
        """\
2-2 variable M
3-3 function M.new
4-4 function M.go
5-5 function helper
6-6 function M.late
7-7 variable t
7-7 method t.cb
""",
        ("json",),
    ),
    Case(
        "a.sh",
        "shellscript",
        """\
#!/bin/bash
source ./lib.sh
. other.sh
NAME=é
export PATH_X=1
run() {
  echo hi
}
function go { run; }
""",
        """\
4-4 constant NAME
5-5 constant PATH_X
6-8 function run
9-9 function go
""",
        ("./lib.sh", "other.sh"),
    ),
    Case(
        "a.html",
        "html",
        """\
<html><head><link rel="x" href="a.css"><script src="a.js"></script></head>
<body>
<div id="main-box">
  <a href="no">x</a>
</div>
</body></html>
""",
        """\
3-5 field main-box
""",
        ("a.css", "a.js"),
    ),
    Case(
        "a.css",
        "css",
        """\
@import "base.css";
@import url("b.css");
:root { --main-color: red; }
.btn-primary, a:hover {
  color: red;
}
@keyframes spin { from { top: 0 } }
""",
        """\
3-3 class :root
3-3 variable :root --main-color
4-6 class .btn-primary, a:hover
7-7 function spin
""",
        ("base.css", "b.css"),
    ),
    Case(
        "a.json",
        "json",
        """\
{
  "name": "x",
  "scripts": {
    "test": "y"
  }
}
""",
        """\
2-2 field name
3-5 field scripts
4-4 field scripts.test
""",
    ),
    Case(
        "a.yaml",
        "yaml",
        """\
name: x
jobs:
  test:
    runs-on: y
"quoted": 1
""",
        """\
1-1 field name
2-4 field jobs
3-4 field jobs.test
5-5 field quoted
""",
    ),
    Case(
        "a.toml",
        "toml",
        """\
title = "x"
[tool.ruff]
line-length = 1
[[bin]]
name = "b"
""",
        """\
1-1 field title
2-3 table tool.ruff
3-3 field tool.ruff.line-length
4-5 table bin
""",
    ),
    Case(
        "a.md",
        "markdown",
        """\
Intro

# Über 1.2
text
## Sub *x*
more

Title two
=========
end
""",
        """\
3-10 heading Über 1.2
5-10 heading Über 1.2 > Sub *x*
8-9 heading Über 1.2 > Sub *x* > Title two
""",
    ),
    Case(
        "a.sql",
        "sql",
        """\
CREATE TABLE IF NOT EXISTS app.users (
  id int
);
CREATE VIEW v AS SELECT * FROM users;
CREATE FUNCTION add(a int) RETURNS int AS $$ SELECT 1 $$ LANGUAGE sql;
CREATE TYPE mood AS ENUM ('a');
CREATE INDEX idx ON users (id);
""",
        """\
1-3 table users
2-2 field users.id
4-4 table v
5-5 function add
6-6 type mood
7-7 field idx
""",
    ),
)


def check(case: Case) -> None:
    """The file defines and imports what is drawn, and parses whole."""
    parsed = parse_file(f"src/{case.path}", case.source.encode())

    assert isinstance(parsed, ParsedFile)
    assert parsed.language == case.language
    assert not parsed.is_broken
    drawn = [
        f"{one.start_line}-{one.end_line} {one.kind} {one.symbol}" for one in parsed.definitions
    ]
    assert drawn == case.definitions.splitlines()
    assert parsed.imports == case.imports


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.path)
def test_definitions_and_imports(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.path)
def test_line_ends_and_marks_change_no_definition(case: Case) -> None:
    plain = parse_file(case.path, case.source.encode())
    assert isinstance(plain, ParsedFile)

    for other in (
        case.source.replace("\n", "\r\n").encode(),
        case.source.replace("\n", "\r").encode(),
        b"\xef\xbb\xbf" + case.source.encode(),
        b"\xff\xfe" + case.source.encode("utf-16-le"),
        b"\xfe\xff" + case.source.encode("utf-16-be"),
    ):
        parsed = parse_file(case.path, other)
        assert isinstance(parsed, ParsedFile)
        assert parsed.definitions == plain.definitions
        assert parsed.num_lines == plain.num_lines
