"""Sessions of the ORM."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship, selectinload


class Base(DeclarativeBase):
    pass


class Customer(Base):
    __tablename__ = "orm_customers"
    __table_args__ = {"lancegateway_with": {"region_by": "bucket(id, 2)"}}  # noqa: RUF012 - SQLAlchemy's form

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, server_default=sa.text("uuid()"))
    name: Mapped[str] = mapped_column(sa.String(40))
    since: Mapped[dt.datetime] = mapped_column(server_default=sa.func.now())
    details: Mapped[dict[str, Any] | None] = mapped_column(sa.JSON)
    orders: Mapped[list[Order]] = relationship(back_populates="customer", order_by="Order.id")


class Order(Base):
    __tablename__ = "orm_orders"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    customer_id: Mapped[uuid.UUID] = mapped_column(sa.ForeignKey("orm_customers.id"))
    amount: Mapped[Decimal] = mapped_column(sa.Numeric(10, 2), server_default="0")
    customer: Mapped[Customer] = relationship(back_populates="orders")


@pytest.fixture
def session(engine: sa.Engine) -> Iterator[Session]:
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        yield session
    Base.metadata.drop_all(engine)


def test_objects_are_written_changed_and_removed(session: Session, engine: sa.Engine) -> None:
    ada = Customer(
        name="Ada", details={"vip": True}, orders=[Order(id=1, amount=Decimal("1.50")), Order(id=2)]
    )
    session.add_all([ada, Customer(name="Bob")])
    session.commit()
    # What the gateway gave: a key, a time, an amount.
    assert isinstance(ada.id, uuid.UUID)
    assert isinstance(ada.since, dt.datetime)
    assert [order.amount for order in ada.orders] == [Decimal("1.50"), Decimal(0)]

    ada.name = "Ada Lovelace"
    ada.details = None
    session.delete(ada.orders[0])
    session.commit()
    with Session(engine) as other:
        statement = sa.select(Customer).options(selectinload(Customer.orders)).order_by(Customer.name)
        found = other.scalars(statement).all()
        assert [(one.name, one.details, [order.id for order in one.orders]) for one in found] == [
            ("Ada Lovelace", None, [2]),
            ("Bob", None, []),
        ]
        assert other.get(Order, 2).customer is found[0]  # type: ignore[union-attr]
        assert other.get(Order, 3) is None


@pytest.mark.soak
def test_many_objects_get_their_keys(session: Session) -> None:
    customers = [Customer(name=f"customer {number}") for number in range(100)]
    session.add_all(customers)
    session.commit()
    stored = {row.id: row.name for row in session.execute(sa.select(Customer.id, Customer.name))}
    assert stored == {one.id: one.name for one in customers}


def test_statements_change_objects_that_are_loaded(session: Session) -> None:
    customers = [Customer(name=name) for name in ("a", "b")]
    session.add_all(customers)
    session.flush()
    session.add_all([Order(id=number, customer=customers[number % 2]) for number in range(4)])
    session.flush()
    raised = sa.update(Order).where(Order.customer_id == Customer.id, Customer.name == "b").values(amount=5)
    assert session.execute(raised, execution_options={"synchronize_session": "fetch"}).rowcount == 2  # type: ignore[attr-defined]
    assert [order.amount for order in customers[1].orders] == [5, 5]
    assert session.execute(sa.delete(Order).where(Order.amount == 0)).rowcount == 2  # type: ignore[attr-defined]
    assert session.scalars(sa.select(Order.id).order_by(Order.id)).all() == [1, 3]


def test_a_row_that_another_removed_is_noticed(session: Session, engine: sa.Engine) -> None:
    order = Order(id=1, customer=Customer(name="Ada"))
    session.add(order)
    session.commit()
    assert order.amount == 0
    with engine.connect() as other:
        other.execute(sa.delete(Order.__table__))  # type: ignore[arg-type]
    order.amount = Decimal(1)
    with pytest.raises(sa.orm.exc.StaleDataError, match="expected to update 1 row"):
        session.flush()


def test_a_rollback_forgets_objects_and_takes_no_row_back(session: Session) -> None:
    session.add(Customer(name="stays"))
    session.flush()
    session.rollback()
    assert session.scalars(sa.select(Customer.name)).all() == ["stays"]
    session.begin_nested()
    with pytest.raises(sa.exc.InvalidRequestError, match="the gateway has no savepoints"):
        session.execute(sa.select(Customer))
