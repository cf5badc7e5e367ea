"""What a reader would look up in files as people write them: every language's own ways to define
several names at once, in a condition, in a constructor, or in a pattern."""

import pytest

from tests.composer_index.parsing.test_definitions import Case, check

CASES = (
    Case(
        "settings.py",
        "python",
        '''\
"""Settings of a site."""
from __future__ import annotations

import os, sys as system

HOST, PORT = os.environ.get("HOST", "localhost"), 8000
(width, height), *rest = sizes()
first = second = None
registry["a"], cache.size = 1, 2
__all__ = ["load"]

try:
    import ujson as json
    HAS_UJSON = True
except ImportError:
    HAS_UJSON = False

if system.platform == "win32":
    sep = "\\\\"
elif TYPE_CHECKING:
    from typing import Any
else:
    sep = "/"

for unused in rest:
    print(unused)


class Config(Base, metaclass=Meta):
    debug, verbose = False, True
    timeout: float

    def __init__(self, path):
        self.path = path
        local = 1


@overload
def load(path: str) -> Config: ...


@cache
async def load(path):
    with open(path) as file:
        text = file.read()
    return Config(text)


parse = lambda text: text.split()
''',
        """\
6-6 constant HOST
6-6 constant PORT
7-7 variable width
7-7 variable height
7-7 variable rest
8-8 variable first
8-8 variable second
10-10 variable __all__
14-14 constant HAS_UJSON
16-16 constant HAS_UJSON
19-19 variable sep
23-23 variable sep
29-35 class Config
30-30 field Config.debug
30-30 field Config.verbose
31-31 field Config.timeout
33-35 method Config.__init__
39-39 function load
43-46 function load
49-49 variable parse
""",
        ("os", "sys", "ujson", "typing", "typing.Any"),
    ),
    Case(
        "client.js",
        "javascript",
        """\
'use strict';
const http = require('http'), { EventEmitter } = require('events');
const { name, version: release, engines: { node } = {}, ...others } = pkg;
const [head, , tail = 0] = process.argv;
let retries = 3, timeout;
var self = this;
if (debug) { var inside = 1; }

class Client extends EventEmitter {
  static defaults = { keepAlive: true };
  #socket = null;
  static async *pages(url) { const page = 1; yield page; }
  onData = (chunk) => this.emit('data', chunk);
  'quoted-name'() {}
}

Client.prototype.close = function close() { const code = 0; };
exports.TIMEOUT = 1000;
exports.Client = Client;
exports.Agent = class Agent {};
module.exports.request = async (url) => {};
export let counter = 0, total = 0;
export const a = 1, b = () => 2;
export { Client as default };
export default function connect() {}
const routes = { '/home': () => {}, async about() {}, plain: 1 };
""",
        """\
3-3 constant name
3-3 constant release
3-3 constant node
3-3 constant others
4-4 constant head
4-4 constant tail
5-5 variable retries
5-5 variable timeout
6-6 variable self
9-15 class Client
10-10 field Client.defaults
11-11 field Client.#socket
12-12 method Client.pages
13-13 method Client.onData
14-14 method Client.quoted-name
17-17 function Client.close
18-18 constant TIMEOUT
20-20 class Agent
21-21 function request
22-22 variable counter
22-22 variable total
23-23 constant a
23-23 function b
25-25 function connect
26-26 constant routes
26-26 method routes./home
26-26 method routes.about
""",
        ("http", "events"),
    ),
    Case(
        "store.ts",
        "typescript",
        """\
import { Action } from './actions';
export const INITIAL: State = { items: [] }, LIMIT = 10;
export const [useStore, StoreProvider] = createContext<Store>();
const { dispatch, ...actions } = bind(Action);
declare const VERSION: string;
declare global { interface Window { store: Store } }

export interface State extends Base {
  readonly items: Item[];
  total?: number;
  find(id: string): Item | undefined;
  (event: Event): void;
}
export type Options = { retries: number; onError?: (e: Error) => void } & Base;
export const enum Kind { Added = 'added', Removed = 'removed', Other }
export function select(id: string): Item;
export function select(id: number): Item;
export function select(id: any) { const found = 1; return found; }

@Injectable()
export class Store<T> implements Disposable {
  private static instance?: Store<any>;
  declare readonly brand: 'store';
  #queue: Action[] = [];
  constructor(private readonly http: Http, public url = '/', plain?: string) {}
  get size(): number { return 0; }
  protected abstract reduce(action: Action): void;
  handle = async <K extends keyof T>(key: K) => { await key; };
}
export namespace Store { export const empty = new Store(); }
export default abstract class Base2 { abstract id: string }
""",
        """\
2-2 constant INITIAL
2-2 constant LIMIT
3-3 constant useStore
3-3 constant StoreProvider
4-4 constant dispatch
4-4 constant actions
5-5 constant VERSION
6-6 interface Window
6-6 field Window.store
8-13 interface State
9-9 field State.items
10-10 field State.total
11-11 method State.find
14-14 type Options
14-14 field Options.retries
14-14 field Options.onError
15-15 enum Kind
15-15 constant Kind.Added
15-15 constant Kind.Removed
15-15 constant Kind.Other
16-16 function select
17-17 function select
18-18 function select
21-29 class Store
22-22 field Store.instance
23-23 field Store.brand
24-24 field Store.#queue
25-25 method Store.constructor
25-25 field Store.http
25-25 field Store.url
26-26 method Store.size
27-27 method Store.reduce
28-28 method Store.handle
30-30 module Store
31-31 class Base2
31-31 field Base2.id
""",
        ("./actions",),
    ),
    Case(
        "server.go",
        "go",
        """\
package server

import "net/http"

const Version, build = "1.2", 7

const (
	StateNew State = iota
	StateIdle
	_
	StateClosed, StateHijacked = iota, 9
)

var host, port = "localhost", 80
var (
	mu       sync.Mutex
	hits, misses int
	_ http.Handler = (*Server)(nil)
)

type State uint8

type Handler interface {
	http.Handler
	Serve(w Writer, r *Request) (int, error)
	comparable | ~string
}

type Server struct {
	*http.Server
	Addr, Name string `json:"addr"`
	onClose    func() error
}

type Set[K comparable] map[K]struct{}

func (s *Set[K]) Add(key K) { local := 1; var other = 2; _ = local }
func (Server) Close() error { return nil }
func Map[T, U any](in []T, f func(T) U) []U { type pair struct{ a T }; return nil }
""",
        """\
5-5 constant Version
8-8 constant StateNew
9-9 constant StateIdle
11-11 constant StateClosed
14-14 variable host
14-14 variable port
16-16 variable mu
17-17 variable hits
17-17 variable misses
21-21 type State
23-27 interface Handler
25-25 method Handler.Serve
29-33 class Server
31-31 field Server.Addr
31-31 field Server.Name
32-32 field Server.onClose
35-35 type Set
37-37 method Set.Add
38-38 method Server.Close
39-39 function Map
39-39 class Map.pair
39-39 field Map.pair.a
""",
        ("net/http",),
    ),
    Case(
        "pool.rs",
        "rust",
        """\
use crate::conn::{Conn, Error};
pub(crate) static mut COUNTER: usize = 0;
pub const MAX: usize = 8;
const _: () = assert!(MAX > 1);

#[derive(Debug, Clone)]
pub struct Pool<'a, M: Manage> {
    pub(crate) idle: Vec<Conn<'a>>,
    manager: M,
}
pub struct Id(pub u64);
pub enum Event { Opened, Closed { reason: String }, Failed(Error) }
pub union Bits { int: u32, float: f32 }

pub trait Manage: Send {
    type Connection;
    const NAME: &'static str;
    fn open(&self) -> Result<Self::Connection, Error>;
    fn check(&self) -> bool { let ok = true; ok }
}
impl<'a, M> Pool<'a, M> where M: Manage {
    pub const SIZE: usize = 4;
    pub async unsafe fn get(&mut self) -> Option<Conn<'a>> { static CALLS: u8 = 0; None }
}
impl<M> Drop for &Pool<'_, M> { fn drop(&mut self) {} }
impl Manage for str { type Connection = Conn; fn open(&self) {} }
impl fmt::Display for errors::Error { fn fmt(&self) {} }
extern "C" { fn getpid() -> i32; }
pub mod tests { pub(super) fn helper() {} }
macro_rules! pool { ($x:expr) => { Pool::new($x) }; }
""",
        """\
2-2 constant COUNTER
3-3 constant MAX
7-10 class Pool
8-8 field Pool.idle
9-9 field Pool.manager
11-11 class Id
12-12 enum Event
12-12 constant Event.Opened
12-12 constant Event.Closed
12-12 field Event.Closed.reason
12-12 constant Event.Failed
13-13 class Bits
13-13 field Bits.int
13-13 field Bits.float
15-20 interface Manage
16-16 type Manage.Connection
17-17 constant Manage.NAME
18-18 method Manage.open
19-19 method Manage.check
22-22 constant Pool.SIZE
23-23 method Pool.get
23-23 constant Pool.get.CALLS
25-25 method Pool.drop
26-26 type str.Connection
26-26 method str.open
27-27 method Error.fmt
28-28 function getpid
29-29 module tests
29-29 function tests.helper
30-30 macro pool
""",
        ("crate::conn::{Conn,Error}",),
    ),
    Case(
        "Cache.java",
        "java",
        """\
package org.example.cache;

import java.util.*;

public sealed class Cache<K, V> extends Base implements Closeable permits LruCache {
    public static final int MAX = 10, MIN = 1;
    private final Map<K, V> entries = new HashMap<>();
    static { init(); }
    public Cache(int size) { int local = 1; }
    @Override public V get(K key) throws Missing { return null; }
    abstract <T extends V> T load(K key);
    enum Policy { LRU { void evict() {} }, LFU; int rank() { return 0; } }
    record Entry<K, V>(K key, V value) { Entry { check(key); } static int count; }
    @interface Cached { int seconds() default 60; String NAME = "c"; }
    interface Listener { int LEVEL = 1; void evicted(Object key); default void added() {} }
}
""",
        """\
5-16 class Cache
6-6 field Cache.MAX
6-6 field Cache.MIN
7-7 field Cache.entries
9-9 method Cache.Cache
10-10 method Cache.get
11-11 method Cache.load
12-12 enum Cache.Policy
12-12 field Cache.Policy.LRU
12-12 method Cache.Policy.LRU.evict
12-12 field Cache.Policy.LFU
12-12 method Cache.Policy.rank
13-13 class Cache.Entry
13-13 method Cache.Entry.Entry
13-13 field Cache.Entry.count
14-14 interface Cache.Cached
14-14 method Cache.Cached.seconds
14-14 constant Cache.Cached.NAME
15-15 interface Cache.Listener
15-15 constant Cache.Listener.LEVEL
15-15 method Cache.Listener.evicted
15-15 method Cache.Listener.added
""",
        ("java.util",),
    ),
    Case(
        "net.c",
        "c",
        """\
#ifndef NET_H
#define NET_H
#include "net.h"
#define NET_OK 0
#define min(a, b) ((a) < (b) ? (a) : (b))

extern int net_errors;
extern void net_log(const char *message);
int port, *ports, backlog[16];
static volatile unsigned long served, dropped = 0;
const char *const names[] = { "a", "b" }, *fallback;
static void (*on_close)(int fd), (*on_open)(int) = NULL;
struct net_state { int fd, *fds; char buf[16]; void (*done)(struct net_state *); unsigned busy : 1; } state;
typedef struct conn { struct conn *next; } conn, *conn_ptr;
typedef enum { CONN_NONE, CONN_OPEN = 4 } conn_kind;
typedef int (*net_handler)(conn *, void *);
typedef unsigned char byte_t, bytes_t[4];
union number { int i; float f; };

static int net_read(conn *c, char *buf);

#ifdef __linux__
static int epoll_fd = -1;
int net_poll(void) { static int calls; int n = 0, m; return n; }
#else
int net_poll(void) { return 0; }
#endif

struct conn **net_all(void) { return 0; }
static int (*net_pick(int kind))(int) { return 0; }
int old_style(a, b) int a; char *b; { return a; }
#endif
""",
        """\
4-4 constant NET_OK
5-5 macro min
9-9 variable port
9-9 variable ports
9-9 variable backlog
10-10 variable served
10-10 variable dropped
11-11 variable names
11-11 variable fallback
12-12 variable on_close
12-12 variable on_open
13-13 variable state
13-13 class net_state
13-13 field net_state.fd
13-13 field net_state.fds
13-13 field net_state.buf
13-13 field net_state.done
13-13 field net_state.busy
14-14 type conn
14-14 type conn_ptr
14-14 class conn
14-14 field conn.next
15-15 type conn_kind
15-15 constant conn_kind.CONN_NONE
15-15 constant conn_kind.CONN_OPEN
16-16 type net_handler
17-17 type byte_t
17-17 type bytes_t
18-18 class number
18-18 field number.i
18-18 field number.f
23-23 variable epoll_fd
24-24 function net_poll
26-26 function net_poll
29-29 function net_all
30-30 function net_pick
31-31 function old_style
""",
        ("net.h",),
    ),
    Case(
        "box.cpp",
        "cpp",
        """\
#include "box.hpp"
namespace ui::detail {
constexpr int kLimit = 3, kOther{4};
inline namespace v2 { static std::atomic<int> live{0}; }
template <typename T, int N = 2>
class Box final : public Base<T> {
 public:
  using value_type = T;
  enum class State : char { Empty, Full };
  explicit Box(T v) : v_(std::move(v)) {}
  ~Box() override { reset(); }
  Box(const Box&) = delete;
  virtual void draw() const = 0;
  int declared(int a);
  operator bool() const { return true; }
  bool operator()(int a) { return a; }
  template <class U> U as() const { return U(v_); }
  static int count, limit;
 private:
  T v_{}, *next_ = nullptr;
  std::function<void(int)> done_;
};
template <> struct Box<int> { int raw; };
}
template <typename T> void ui::detail::Box<T>::draw() const { int local = 1; auto f = [](int x) { return x; }; }
template <typename K, typename V> auto Map<K, std::vector<V>>::find(K k) -> V& { return v; }
std::ostream& operator<<(std::ostream& out, const Box& b) { return out; }
int ui::detail::Box<int>::count = 0;
extern "C" { int exported = 1; void entry() {} }
template <typename T> concept Drawable = requires(T t) { t.draw(); };
#define TRACE(x) log(x)
auto handler = [](int x) { return x; };
""",
        """\
2-24 module ui.detail
3-3 variable ui.detail.kLimit
3-3 variable ui.detail.kOther
4-4 module ui.detail.v2
4-4 variable ui.detail.v2.live
6-22 class ui.detail.Box
8-8 type ui.detail.Box.value_type
9-9 enum ui.detail.Box.State
9-9 constant ui.detail.Box.State.Empty
9-9 constant ui.detail.Box.State.Full
10-10 method ui.detail.Box.Box
11-11 method ui.detail.Box.~Box
13-13 method ui.detail.Box.draw
15-15 method ui.detail.Box.operator bool
16-16 method ui.detail.Box.operator()
17-17 method ui.detail.Box.as
18-18 field ui.detail.Box.count
18-18 field ui.detail.Box.limit
20-20 field ui.detail.Box.v_
20-20 field ui.detail.Box.next_
21-21 field ui.detail.Box.done_
23-23 class ui.detail.Box<int>
23-23 field ui.detail.Box<int>.raw
25-25 function ui.detail.Box.draw
26-26 function Map.find
27-27 function operator<<
28-28 variable ui.detail.Box.count
29-29 variable exported
29-29 function entry
30-30 type Drawable
31-31 macro TRACE
32-32 variable handler
""",
        ("box.hpp",),
    ),
    Case(
        "Orders.cs",
        "csharp",
        """\
using System.Linq;
namespace Shop.Orders;

public delegate void Placed(Order order);

[Serializable]
public abstract partial class Order<T> : Entity, IDisposable where T : new()
{
    public const int Max = 10, Min = 1;
    private readonly List<Item> items = new(), others = new();
    public event EventHandler<int> Changed;
    public event Action Custom { add { } remove { } }
    public decimal Total => items.Sum(i => i.Price);
    public required string Name { get; init; } = "";
    public Order(int id) : base(id) { var local = 1; }
    ~Order() { }
    public Item this[int index] => items[index];
    public static Order<T> operator +(Order<T> a, Item b) => a;
    public abstract Task<int> PlaceAsync(CancellationToken token);
    public void Dispose() => items.Clear();
    private enum State { New, Paid = 2 }
    private readonly record struct Line(int Id, decimal Price) { public decimal Tax => 0; }
    private interface IRule { bool Holds(Order<T> order); int Level { get; } }
}
public static class Extensions { public static int Count(this string s) { int Inner() => 1; return Inner(); } }
""",
        """\
2-2 module Shop.Orders
4-4 type Placed
6-24 class Order
9-9 field Order.Max
9-9 field Order.Min
10-10 field Order.items
10-10 field Order.others
11-11 field Order.Changed
12-12 field Order.Custom
13-13 field Order.Total
14-14 field Order.Name
15-15 method Order.Order
19-19 method Order.PlaceAsync
20-20 method Order.Dispose
21-21 enum Order.State
21-21 field Order.State.New
21-21 field Order.State.Paid
22-22 class Order.Line
22-22 field Order.Line.Tax
23-23 interface Order.IRule
23-23 method Order.IRule.Holds
23-23 field Order.IRule.Level
25-25 class Extensions
25-25 method Extensions.Count
25-25 function Extensions.Count.Inner
""",
        ("System.Linq",),
    ),
    Case(
        "user.rb",
        "ruby",
        """\
require 'active_record'
module Accounts
  LIMIT, RETRIES = 10, 3
  Point = Struct.new(:x, :y) do
    def norm; x + y; end
  end
  class User < ApplicationRecord
    ROLES = %w[admin user].freeze
    CACHE ||= {}
    attr_reader :name, :email
    attr_accessor(:token)
    alias full_name name
    alias_method :mail, :email
    define_method(:admin?) { role == 'admin' }
    class << self
      def find_by_email(email) = where(email:)
    end
    def self.create!(attributes); local = 1; end
    def name=(value); @name = value; end
    def ==(other) = other.id == id
    private def secret; end
  end
  class Admin::Panel; end
end
$logger = Logger.new
def helper(*) = nil
""",
        """\
2-24 module Accounts
3-3 constant Accounts.LIMIT
3-3 constant Accounts.RETRIES
4-6 constant Accounts.Point
5-5 function Accounts.Point.norm
7-22 class Accounts.User
8-8 constant Accounts.User.ROLES
9-9 constant Accounts.User.CACHE
10-10 field Accounts.User.name
10-10 field Accounts.User.email
11-11 field Accounts.User.token
12-12 method Accounts.User.full_name
13-13 method Accounts.User.mail
14-14 method Accounts.User.admin?
16-16 method Accounts.User.find_by_email
18-18 method Accounts.User.create!
19-19 method Accounts.User.name=
20-20 method Accounts.User.==
21-21 method Accounts.User.secret
23-23 class Accounts.Admin.Panel
25-25 variable $logger
26-26 function helper
""",
        ("active_record",),
    ),
    Case(
        "Mailer.php",
        "php",
        """\
<?php
declare(strict_types=1);
namespace App\\Mail;
use Psr\\Log\\LoggerInterface as Log;
use function App\\helper;
define('MAIL_VERSION', '2');
const RETRIES = 3, TIMEOUT = 10;
$defaults = ['from' => 'a'];
if (!function_exists('mail_to')) { function mail_to(string $to) { $local = 1; static $calls = 0; } }
abstract class Mailer extends Base implements Sends {
    use Queues, Logs;
    public const DRIVER = 'smtp', PORT = 25;
    private static ?self $instance = null;
    protected $host, $port = 25;
    public function __construct(private readonly Log $log, protected int $retries = 3, $plain = 1) {}
    abstract protected function send(Message $m): bool;
    public static function make(): static { return new static(); }
}
enum Status: string { case Sent = 's'; case Failed = 'f'; const DEFAULT = self::Sent; public function label(): string { return ''; } }
trait Queues { public function queue() {} }
$handler = function ($x) { return $x; };
$arrow = fn($x) => $x;
""",
        """\
6-6 constant MAIL_VERSION
7-7 constant RETRIES
7-7 constant TIMEOUT
8-8 variable defaults
9-9 function mail_to
10-18 class Mailer
12-12 constant Mailer.DRIVER
12-12 constant Mailer.PORT
13-13 field Mailer.instance
14-14 field Mailer.host
14-14 field Mailer.port
15-15 method Mailer.__construct
15-15 field Mailer.log
15-15 field Mailer.retries
16-16 method Mailer.send
17-17 method Mailer.make
19-19 enum Status
19-19 field Status.Sent
19-19 field Status.Failed
19-19 constant Status.DEFAULT
19-19 method Status.label
20-20 class Queues
20-20 method Queues.queue
21-21 variable handler
22-22 variable arrow
""",
        ("Psr\\Log\\LoggerInterface", "App\\helper"),
    ),
    Case(
        "init.lua",
        "lua",
        """\
local utils, log = require("utils"), require("log")
local api, fn = vim.api, vim.fn
local M, cache = {}, setmetatable({}, { __mode = "k" })
local later
local MAX <const> = 10
M.version = "1.0"
DEFAULTS = { width = 80, on_open = function(win) end }
local function clamp(value, low, high) local mid = 1; return value end
function M.setup(opts) count = 1 end
function M.ui.float:open() end
M.close = function() end
local toggle = function() end
M["quoted"] = function() end
return M
""",
        """\
2-2 variable api
2-2 variable fn
3-3 variable M
3-3 variable cache
4-4 variable later
5-5 constant MAX
6-6 variable M.version
7-7 constant DEFAULTS
7-7 method DEFAULTS.on_open
8-8 function clamp
9-9 function M.setup
10-10 function M.ui.float.open
11-11 function M.close
12-12 function toggle
""",
        ("utils", "log"),
    ),
    Case(
        "deploy.sh",
        "shellscript",
        """\
#!/usr/bin/env bash
set -euo pipefail
. "$(dirname "$0")/common.sh"
ROOT=$(pwd)
readonly VERSION=1.2 CHANNEL
declare -r HOST=a PORT=80
declare -A seen
export PATH=$PATH:/opt LANG
files=(a b)
alias ll='ls -l' gs=git\\ status
alias k=kubectl
if [ -n "${CI:-}" ]; then
  declare -x MODE=ci
fi
usage() { local name=$1; echo "$name"; }
function deploy::run { declare inner=1; usage; }
function main() (
  deploy::run "$@"
)
main "$@"
""",
        """\
4-4 constant ROOT
5-5 constant VERSION
5-5 constant CHANNEL
6-6 constant HOST
6-6 constant PORT
7-7 variable seen
8-8 constant PATH
9-9 variable files
10-10 function ll
10-10 function gs
11-11 function k
13-13 constant MODE
15-15 function usage
16-16 function deploy.run
17-19 function main
""",
        ('$(dirname"$0")/common.sh',),
    ),
    Case(
        "schema.sql",
        "sql",
        """\
CREATE SCHEMA shop;
CREATE TABLE IF NOT EXISTS shop.orders (
  id bigint PRIMARY KEY,
  "placedAt" timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT positive CHECK (id > 0)
);
CREATE UNIQUE INDEX orders_placed_idx ON shop.orders (placed_at);
CREATE OR REPLACE VIEW recent AS SELECT id FROM shop.orders;
CREATE MATERIALIZED VIEW totals AS SELECT 1;
CREATE TYPE status AS ENUM ('new', 'paid');
CREATE OR REPLACE FUNCTION total(o bigint) RETURNS numeric AS $$ SELECT 1 $$ LANGUAGE sql;
CREATE TRIGGER touch BEFORE UPDATE ON shop.orders FOR EACH ROW EXECUTE FUNCTION touch_row();
ALTER TABLE shop.orders ADD COLUMN note text;
CREATE SEQUENCE order_numbers;
""",
        """\
1-1 module shop
2-6 table orders
3-3 field orders.id
4-4 field orders.placedAt
7-7 field orders_placed_idx
8-8 table recent
9-9 table totals
10-10 type status
11-11 function total
12-12 function touch
13-13 field note
14-14 field order_numbers
""",
    ),
    Case(
        "theme.css",
        "css",
        """\
@import url("reset.css");
:root, [data-theme="dark"] {
  --brand: #fff; --gap-small: 4px;
  color: red;
}
@media (max-width: 600px) {
  :root { --gap-small: 2px; }
  .nav > li:hover { display: none; }
}
.card {
  &:hover { color: blue; }
  .title { color: red; }
}
@keyframes fade-in { from { opacity: 0 } to { opacity: 1 } }
@layer base { h1 { margin: 0 } }
""",
        """\
2-5 class :root, [data-theme="dark"]
3-3 variable :root, [data-theme="dark"] --brand
3-3 variable :root, [data-theme="dark"] --gap-small
7-7 class :root
7-7 variable :root --gap-small
8-8 class .nav > li:hover
10-13 class .card
11-11 class .card &:hover
12-12 class .card .title
14-14 function fade-in
15-15 class h1
""",
        ("reset.css",),
    ),
    Case(
        "README.md",
        "markdown",
        """\
Composer
========

Install
-------
Run it.

# Usage
text
## Options `--all`
more
### Deep
end
# Usage
again
""",
        """\
1-2 heading Composer
4-5 heading Install
8-13 heading Usage
10-13 heading Usage > Options `--all`
12-13 heading Usage > Options `--all` > Deep
14-15 heading Usage
""",
    ),
    Case(
        "page.html",
        "html",
        """\
<!doctype html>
<html>
<head><link href="site.css" rel="stylesheet"><script src="site.js"></script></head>
<body>
<nav id="menu"><input id='query' type="text"><br id="b"/></nav>
<p id=plain>x</p>
</body>
</html>
""",
        """\
5-5 field menu
5-5 field menu.query
5-5 field menu.b
6-6 field plain
""",
        ("site.css", "site.js"),
    ),
    Case(
        "data.json",
        "json",
        """\
{"name": "x", "version": "1", "scripts": {"build": "tsc", "test": {"deep": 1}}, "list": [{"a": 1}]}
""",
        """\
1-1 field name
1-1 field version
1-1 field scripts
1-1 field scripts.build
1-1 field scripts.test
1-1 field list
""",
    ),
    Case(
        "ci.yaml",
        "yaml",
        """\
# Checks.
name: ci
on: {push: {branches: [main]}}
defaults: &defaults
  run: {shell: bash}
jobs:
  test:
    runs-on: ubuntu
    steps:
      - name: Check out
  "lint all":
    <<: *defaults
---
second: document
""",
        """\
2-2 field name
3-3 field on
4-5 field defaults
5-5 field defaults.run
6-12 field jobs
7-10 field jobs.test
11-12 field jobs.lint all
14-14 field second
""",
    ),
    Case(
        "pyproject.toml",
        "toml",
        """\
title = "x"
owner.name = "y"
[project]
name = "composer"
dependencies = ["a"]
[tool.ruff.lint]
select = ["E"]
[[tool.mypy.overrides]]
module = "a"
""",
        """\
1-1 field title
2-2 field owner.name
3-5 table project
4-4 field project.name
5-5 field project.dependencies
6-7 table tool.ruff.lint
7-7 field tool.ruff.lint.select
8-9 table tool.mypy.overrides
""",
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.path)
def test_definitions_and_imports(case: Case) -> None:
    check(case)
